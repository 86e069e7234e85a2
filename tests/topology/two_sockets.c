// The description of a machine recorded in two_sockets.xml, which HWLOC_XMLFILE names.
#include "cmocka_all.h"
#include "topology/describe/describe.h"

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

// The member `key` is what the JSON text says.
static void is(const char *key, const char *text) {
  json_t *expected = json_loads(text, JSON_DECODE_ANY, NULL);
  assert_non_null(expected);
  json_t *found = json_object_get(description, key);
  if (!json_equal(found, expected)) {
    char *found_text = json_dumps(found, JSON_ENCODE_ANY);
    print_error("%s is %s, not %s\n", key, found_text ? found_text : "missing", text);
    free(found_text);
  }
  assert_true(json_equal(found, expected));
  json_decref(expected);
}

static void processors_and_memory_are_counted(void **state) {
  (void)state;
  is("source", "\"hwloc\"");
  is("packages", "2");
  is("cores", "4");
  is("threads", "4");
  is("memory_bytes", "25769803776");
}

static void numa_nodes_have_their_processors_and_memory(void **state) {
  (void)state;
  is("numa_nodes", "[{\"node\": 0, \"memory_bytes\": 8589934592, \"cpus\": \"0-1\"},"
                   " {\"node\": 1, \"memory_bytes\": 17179869184, \"cpus\": \"2-3\"}]");
}

static void caches_are_counted_by_level(void **state) {
  (void)state;
  is("caches", "[{\"level\": 3, \"bytes\": 33554432, \"count\": 2}]");
}

static void devices_have_their_kind_names_and_nearest_node(void **state) {
  (void)state;
  is("devices", "[{\"kind\": \"gpu\", \"address\": \"0000:01:00.0\", \"vendor\": \"10de\", \"device\": \"2335\","
                "  \"name\": \"Example GPU\", \"numa_node\": 0, \"names\": []},"
                " {\"kind\": \"storage\", \"address\": \"0000:02:00.0\", \"vendor\": \"144d\", \"device\": \"a80a\","
                "  \"numa_node\": 0, \"names\": [\"nvme0n1\"]},"
                " {\"kind\": \"infiniband\", \"address\": \"0000:81:00.0\", \"vendor\": \"15b3\", \"device\": \"1021\","
                "  \"name\": \"Example host channel adapter\", \"numa_node\": 1, \"names\": [\"ib0\", \"mlx5_0\"]},"
                " {\"kind\": \"network\", \"address\": \"0000:82:00.1\", \"vendor\": \"8086\", \"device\": \"1592\","
                "  \"numa_node\": 1, \"names\": [\"eth1\"]}]");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processors_and_memory_are_counted),
      cmocka_unit_test(numa_nodes_have_their_processors_and_memory),
      cmocka_unit_test(caches_are_counted_by_level),
      cmocka_unit_test(devices_have_their_kind_names_and_nearest_node),
  };
  return cmocka_run_group_tests_name("topology of a recorded machine", tests, describe, drop);
}
