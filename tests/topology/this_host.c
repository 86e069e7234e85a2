// The description of this host, as far as the C library knows it: with hwloc, and in a build without hwloc.
#include "cmocka_all.h"
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "support/temporary.h"
#include "topology/describe/describe.h"
#include "topology/read/line.h"

static json_t *description;

static int describe(void **state) {
  (void)state;
  description = topology_describe();
  return description ? 0 : -1;
}

static int drop(void **state) {
  (void)state;
  json_decref(description);
  return 0;
}

static const char *text(const char *key) {
  const char *found = json_string_value(json_object_get(description, key));
  return found ? found : "";
}

static void host_and_kernel_are_those_of_uname(void **state) {
  (void)state;
  struct utsname name;
  uname(&name);
  assert_string_equal(text("host"), name.nodename);
  assert_non_null(strstr(text("kernel"), name.release));
  assert_int_equal(strlen(text("boot_id")), 36);
}

static void threads_and_memory_are_reported_by_whichever_source(void **state) {
  (void)state;
  cpu_set_t usable;
  assert_int_equal(sched_getaffinity(0, sizeof usable, &usable), 0);
  assert_int_equal(json_integer_value(json_object_get(description, "threads")), CPU_COUNT(&usable));
  assert_int_equal(json_integer_value(json_object_get(description, "memory_bytes")),
                   (json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
  assert_string_equal(text("source"), TOPOLOGY_SOURCE);
}

static void every_network_interface_is_listed(void **state) {
  (void)state;
  const json_t *list = json_object_get(description, "interfaces");
  struct if_nameindex *interfaces = if_nameindex();
  assert_non_null(interfaces);
  size_t count = 0;
  for (; interfaces[count].if_index != 0; count++) {
    const json_t *row = json_array_get(list, count);
    assert_string_equal(json_string_value(json_object_get(row, "name")), interfaces[count].if_name);
  }
  assert_int_equal(json_array_size(list), count);
  if_freenameindex(interfaces);
}

static void a_line_is_read_without_its_end_and_within_its_buffer(void **state) {
  (void)state;
  char path[256], line[8];
  support_temporary(path, sizeof path, "weft-test");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, "one\ntwo\n", 8), 8);
  char *read_short = topology_read_line(path, line, sizeof line);
  assert_int_equal(ftruncate(fd, 0), 0);
  assert_int_equal(pwrite(fd, "a long line\n", 12, 0), 12);
  char cut[8];
  char *read_long = topology_read_line(path, cut, sizeof cut);
  close(fd);
  unlink(path);
  assert_ptr_equal(read_short, line);
  assert_string_equal(line, "one");
  assert_ptr_equal(read_long, cut);
  assert_string_equal(cut, "a long ");
  assert_null(topology_read_line(path, line, sizeof line));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(host_and_kernel_are_those_of_uname),
      cmocka_unit_test(threads_and_memory_are_reported_by_whichever_source),
      cmocka_unit_test(every_network_interface_is_listed),
      cmocka_unit_test(a_line_is_read_without_its_end_and_within_its_buffer),
  };
  return cmocka_run_group_tests_name("topology of this host", tests, describe, drop);
}
