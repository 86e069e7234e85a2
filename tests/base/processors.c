// The processors that may be used: by affinity, and by the limits of control groups.
#include "cmocka_all.h"
#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/processors.h"
#include "support/temporary.h"

static char root[4096];

// --- a host with more processors than a cpu_set_t holds ---

static size_t wrap_processors; // 0: this host's

int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus);

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus) {
  if (wrap_processors == 0)
    return __real_sched_getaffinity(pid, size, cpus);
  if (8 * size < wrap_processors) {
    errno = EINVAL;
    return -1;
  }
  CPU_ZERO_S(size, cpus);
  for (size_t i = 0; i < wrap_processors; i++)
    CPU_SET_S(i, size, cpus);
  return 0;
}

static void those_of_a_large_host_are_counted(void **state) {
  (void)state;
  static const size_t counts[] = {1024, 1025, 1792, 8192};
  char list[64], expected[64];
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    wrap_processors = counts[i];
    unsigned count = processors_usable(root, list, sizeof list);
    wrap_processors = 0;
    snprintf(expected, sizeof expected, "0-%zu", counts[i] - 1);
    assert_int_equal(count, counts[i]);
    assert_string_equal(list, expected);
  }
}

// --- this host ---

static void put(const char *path, const char *text) {
  char whole[4096];
  snprintf(whole, sizeof whole, "%s%s", root, path);
  for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = '\0';
    mkdir(whole, 0700);
    *slash = '/';
  }
  FILE *file = fopen(whole, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static unsigned usable(void) {
  char list[64];
  return processors_usable(root, list, sizeof list);
}

static unsigned all(void) {
  cpu_set_t cpus;
  assert_int_equal(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  return (unsigned)CPU_COUNT(&cpus);
}

static unsigned at_most(unsigned limit) {
  return all() < limit ? all() : limit;
}

static int open_root(void **state) {
  (void)state;
  support_temporary(root, sizeof root, "weft-processors");
  return mkdtemp(root) ? 0 : -1;
}

static int drop(const char *path, const struct stat *unused_status, int unused_kind, struct FTW *unused_place) {
  (void)unused_status, (void)unused_kind, (void)unused_place;
  return remove(path);
}

static int close_root(void **state) {
  (void)state;
  return nftw(root, drop, 8, FTW_DEPTH | FTW_PHYS);
}

static void without_limits_those_that_it_may_run_on(void **state) {
  (void)state;
  assert_int_equal(usable(), all());
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/cpu.max", "max 100000\n");
  assert_int_equal(usable(), all());
}

static void the_least_of_a_group_and_those_above_it_counts(void **state) {
  (void)state;
  put("/proc/self/cgroup", "0::/a/b\n");
  put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  put("/sys/fs/cgroup/a/cpu.max", "20000 100000\n"); // a fifth of a processor
  assert_int_equal(usable(), 1);
  put("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  assert_int_equal(usable(), at_most(2));
}

static void groups_of_version_1_count_too(void **state) {
  (void)state;
  put("/proc/self/cgroup", "5:memory:/x\n4:cpuset:/x\n3:cpu,cpuacct:/x\n");
  put("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
  assert_int_equal(usable(), all());
  put("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "100000\n");
  assert_int_equal(usable(), 1);
}

static void the_list_is_that_of_the_affinity(void **state) {
  (void)state;
  cpu_set_t before, one;
  char list[64], expected[16];
  int first = 0;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  while (!CPU_ISSET(first, &before))
    first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  snprintf(expected, sizeof expected, "%d", first);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_int_equal(processors_usable(root, list, sizeof list), 1);
  assert_string_equal(list, expected);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(those_of_a_large_host_are_counted, open_root, close_root),
      cmocka_unit_test_setup_teardown(without_limits_those_that_it_may_run_on, open_root, close_root),
      cmocka_unit_test_setup_teardown(the_least_of_a_group_and_those_above_it_counts, open_root, close_root),
      cmocka_unit_test_setup_teardown(groups_of_version_1_count_too, open_root, close_root),
      cmocka_unit_test_setup_teardown(the_list_is_that_of_the_affinity, open_root, close_root),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
