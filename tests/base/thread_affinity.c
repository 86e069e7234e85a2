// On which processors threads run: the choice on made-up hosts, and the affinity of real threads.
#include "base/affinity.h"

#include "cmocka_all.h"

#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temporary.h"

static cpu_set_t cpus(const char *list) {
  cpu_set_t set;
  assert_true(affinity_parse(list, &set));
  return set;
}

static void test_lists(void **state) {
  (void)state;
  cpu_set_t set = cpus("0-3,8\n");
  assert_int_equal(CPU_COUNT(&set), 5);
  assert_true(CPU_ISSET(0, &set) && CPU_ISSET(3, &set) && CPU_ISSET(8, &set) && !CPU_ISSET(4, &set));
  set = cpus("");
  assert_int_equal(CPU_COUNT(&set), 0);
  set = cpus("1023");
  assert_true(CPU_ISSET(1023, &set));
  static const char *const wrong[] = {"a",   "1-",   "-1", "3-1",   "0-1024", "1024",
                                      "1;2", "1,,2", " 1", "1-2-3", "+1",     NULL};
  for (const char *const *list = wrong; *list; list++)
    if (affinity_parse(*list, &set))
      fail_msg("\"%s\" was taken for a list", *list);
}

static void expect(const char *allowed, int node, bool binds, const char *to, const char *words) {
  const struct affinity_node nodes[] = {{0, cpus("0-3")}, {1, cpus("4-7")}, {2, cpus("")}}; // the last has memory alone
  cpu_set_t set = cpus(allowed), wanted = cpus(to);
  struct affinity_place place;
  affinity_choose(nodes, 3, node, "eth0", &set, &place);
  if (place.binds != binds || !CPU_EQUAL(&place.cpus, &wanted) || !strstr(place.why, words))
    fail_msg("of %s at node %d: binds %d, %d processors: %s", allowed, node, place.binds, CPU_COUNT(&place.cpus),
             place.why);
}

static void test_the_choice(void **state) {
  (void)state;
  expect("0-7", 0, true, "0-3", "on the processors of NUMA node 0, which is that of eth0");
  expect("0-7", 1, true, "4-7", "node 1");
  expect("2-5", 1, true, "4-5", "node 1");                   // no wider than before
  expect("4-5", 1, false, "4-5", "no others than those of"); // there already
  expect("0-3", 1, false, "0-3", "may not use the processors of NUMA node 1");
  expect("0-7", -1, false, "0-7", "not known");
  expect("0-7", 2, false, "0-7", "has no processors");
  expect("0-7", 9, false, "0-7", "not known");
  const struct affinity_node one = {0, cpus("0-3")};
  cpu_set_t set = cpus("0-7");
  struct affinity_place place;
  affinity_choose(&one, 1, 0, "eth0", &set, &place);
  assert_false(place.binds);
  assert_string_equal(place.why, "where they are: this host has one NUMA node");
}

// --- a host in a folder ---

static char root[128];

static void put(const char *path, const char *text) {
  char full[512];
  snprintf(full, sizeof full, "%s/%s", root, path);
  for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(full, 0700);
    *slash = '/';
  }
  FILE *file = fopen(full, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static void forget_wishes(void) {
  static const char *const names[] = {"WEFT_CPUS", "WEFT_OFI_NICS", "UCX_NET_DEVICES", "WEFT_NICS", "WEFT_INTERFACE"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    unsetenv(names[i]);
}

// Two nodes, of which the first has the first processor that this process may use, and the other one the rest; an
// adapter at each, a network interface, and a GPU.
static cpu_set_t allowed, first, rest;

static int make_host(void **state) {
  (void)state;
  char one[32], others[8 * CPU_SETSIZE] = "";
  size_t size = 0;
  forget_wishes();
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return -1;
  CPU_ZERO(&first);
  rest = allowed;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed))
      continue;
    if (CPU_COUNT(&first) == 0) {
      CPU_SET(cpu, &first);
      CPU_CLR(cpu, &rest);
      snprintf(one, sizeof one, "%d\n", cpu);
    } else
      size += (size_t)snprintf(others + size, sizeof others - size, "%s%d", size ? "," : "", cpu);
  }
  support_temporary(root, sizeof root, "weft-near");
  if (!mkdtemp(root))
    return -1;
  put("sys/devices/system/node/node0/cpulist", one);
  put("sys/devices/system/node/node1/cpulist", others);
  put("sys/devices/system/node/possible", "0-1\n");
  put("sys/class/infiniband/mlx5_0/device/numa_node", "0\n");
  put("sys/class/infiniband/mlx5_1/device/numa_node", "1\n");
  put("sys/class/net/eth0/device/numa_node", "1\n");
  put("sys/class/net/lo/operstate", "unknown\n");
  put("sys/bus/pci/devices/0000:1b:00.0/numa_node", "0\n");
  return 0;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw) {
  (void)stat, (void)type, (void)ftw;
  return remove(path);
}

static int remove_host(void **state) {
  (void)state;
  forget_wishes();
  return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void expect_found(const char *gpu, const cpu_set_t *wanted, const char *words) {
  struct affinity_place place;
  affinity_find(root, gpu, &place);
  if (!CPU_EQUAL(&place.cpus, wanted) || place.binds != !CPU_EQUAL(wanted, &allowed) || !strstr(place.why, words))
    fail_msg("\"%s\" is wanted, not %d processors: %s", words, CPU_COUNT(&place.cpus), place.why);
}

static void test_devices_are_found(void **state) {
  (void)state;
  if (CPU_COUNT(&allowed) < 2) {
    print_message("one processor: there is no choice\n");
    skip();
  }
  expect_found("0000:1B:00.0", &first, "node 0, which is that of the GPU 0000:1B:00.0");
  expect_found("0000:ff:00.0", &allowed, "the GPU 0000:ff:00.0 is not known");
  expect_found(NULL, &allowed, "the NICs are of several NUMA nodes");
  setenv("WEFT_NICS", "mlx5_1", 1);
  expect_found(NULL, &rest, "node 1, which is that of mlx5_1");
  setenv("WEFT_NICS", "^mlx5_1", 1);
  setenv("WEFT_INTERFACE", "eth0", 1);
  expect_found(NULL, &rest, "that of eth0");
  setenv("UCX_NET_DEVICES", "mlx5_0:1", 1);
  expect_found(NULL, &first, "that of mlx5_0");
  setenv("WEFT_OFI_NICS", "mlx5_0,mlx5_1", 1);
  expect_found(NULL, &allowed, "of several NUMA nodes");
  setenv("WEFT_OFI_NICS", "mlx5_7", 1);
  expect_found(NULL, &allowed, "the NUMA node of any NIC is not known");
}

static void test_the_variable_takes_precedence(void **state) {
  (void)state;
  setenv("WEFT_NICS", "mlx5_0", 1);
  setenv("WEFT_CPUS", "any", 1);
  expect_found(NULL, &allowed, "WEFT_CPUS=any");
  setenv("WEFT_CPUS", "all", 1);
  expect_found(NULL, &allowed, "WEFT_CPUS is not a list like 0-3,8");
  setenv("WEFT_CPUS", CPU_ISSET(1023, &allowed) ? "1022" : "1023", 1); // none that it may use
  expect_found(NULL, &allowed, "may not use the processors of WEFT_CPUS");
  if (CPU_COUNT(&allowed) > 1) {
    char list[16];
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
      if (CPU_ISSET(cpu, &first))
        snprintf(list, sizeof list, "%d", cpu);
    setenv("WEFT_CPUS", list, 1);
    expect_found(NULL, &first, "on the processors of WEFT_CPUS");
  }
}

// --- threads ---

static cpu_set_t bound;

static void *look(void *arg) {
  (void)arg;
  sched_getaffinity(0, sizeof bound, &bound);
  return NULL;
}

static void expect_bound(const char *gpu, const cpu_set_t *wanted) {
  struct affinity_place place;
  pthread_t thread;
  cpu_set_t own;
  affinity_find(root, gpu, &place);
  assert_int_equal(affinity_create(&place, &thread, look, NULL), 0);
  pthread_join(thread, NULL);
  assert_true(CPU_EQUAL(&bound, wanted));
  assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
  assert_true(CPU_EQUAL(&own, &allowed)); // nobody else
}

static void test_a_thread_is_bound_or_left_alone(void **state) {
  (void)state;
  if (CPU_COUNT(&allowed) > 1)
    expect_bound("0000:1b:00.0", &first);
  expect_bound("0000:ff:00.0", &allowed);
  setenv("WEFT_CPUS", CPU_ISSET(1023, &allowed) ? "1022" : "1023", 1);
  expect_bound("0000:1b:00.0", &allowed);
  struct affinity_place gone = {.binds = true}; // a processor that has gone meanwhile
  pthread_t thread;
  CPU_SET(CPU_ISSET(1023, &allowed) ? 1022 : 1023, &gone.cpus);
  assert_int_equal(affinity_create(&gone, &thread, look, NULL), 0);
  pthread_join(thread, NULL);
  assert_true(CPU_EQUAL(&bound, &allowed));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lists),
      cmocka_unit_test(test_the_choice),
      cmocka_unit_test_setup_teardown(test_devices_are_found, make_host, remove_host),
      cmocka_unit_test_setup_teardown(test_the_variable_takes_precedence, make_host, remove_host),
      cmocka_unit_test_setup_teardown(test_a_thread_is_bound_or_left_alone, make_host, remove_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
