// If there is no choice between NICs, none is made: hwloc is not even loaded.
#include "cmocka_all.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "support/rdma_host.h"
#include "topology/served/serve.h"
#include "transport/nics.h"

static const struct transport ofi = {.name = "ofi"};

static int look(struct dl_phdr_info *info, size_t size, void *arg) {
  (void)size;
  bool *found = arg;
  *found |= info->dlpi_name && strstr(info->dlpi_name, "libweft_topology");
  return 0;
}

static bool is_loaded(void) {
  bool found = false;
  dl_iterate_phdr(look, &found);
  return found;
}

static void chooses(const char *wish, const char *why) {
  struct transport_nics nics;
  transport_nics_choose(&ofi, 0, &nics);
  assert_string_equal(nics.wish, wish);
  if (!*why)
    assert_string_equal(nics.why, "");
  else
    assert_non_null(strstr(nics.why, why));
}

static void a_host_without_rdma_is_left_alone(void **state) {
  (void)state;
  topology_serve_root("/nowhere");
  assert_false(topology_has_choice());
  chooses("", "");
  assert_false(is_loaded());
}

// It has eight, but lends this process one: as a container does.
static void one_that_may_be_opened_is_left_alone(void **state) {
  (void)state;
  struct topology_choice *host = rdma_host_make("p6_b200", 1);
  assert_false(topology_has_choice());
  chooses("", "");
  setenv("WEFT_OFI_NICS", "rdmap79s0", 1);
  chooses("", "");
  unsetenv("WEFT_OFI_NICS");
  assert_false(is_loaded());
  rdma_host_remove(host);
}

static void a_missing_plugin_is_said(void **state) {
  (void)state;
  struct topology_choice *host = rdma_host_make("p6_b200", 2);
  char *plugin = strdup(getenv("WEFT_TOPOLOGY_PLUGIN"));
  assert_true(topology_has_choice());
  setenv("WEFT_TOPOLOGY_PLUGIN", "/nowhere/libweft_topology.so.0", 1);
  chooses("", "/nowhere/libweft_topology.so.0 (from WEFT_TOPOLOGY_PLUGIN)");
  setenv("WEFT_TOPOLOGY_PLUGIN", plugin, 1);
  free(plugin);
  rdma_host_remove(host);
}

// A user's word that is wrong is said, and another is believed once it is right.
static void a_wish_that_names_nothing_is_said(void **state) {
  (void)state;
  struct topology_choice *host = rdma_host_make("p6_b200", 2);
  setenv("WEFT_NICS", "mlx5_77", 1);
  chooses("", "WEFT_NICS names mlx5_77");
  assert_true(is_loaded());
  unsetenv("WEFT_NICS");
  rdma_host_remove(host);
}

// GPU 0 is nearest to the first of the two adapters that may be opened, GPU 7 to none of them.
static void only_what_may_be_opened_is_chosen(void **state) {
  (void)state;
  struct topology_choice *host = rdma_host_make("p6_b200", 2);
  struct transport_nics first, last;
  transport_nics_choose(&ofi, 0, &first);
  transport_nics_choose(&ofi, 7, &last);
  assert_string_equal(first.wish, "nics=rdmap79s0");
  assert_true(strcmp(last.wish, "nics=rdmap79s0") == 0 || strcmp(last.wish, "nics=rdmap80s0") == 0);
  assert_non_null(strstr(last.why, "SYS"));
  rdma_host_remove(host);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_host_without_rdma_is_left_alone), cmocka_unit_test(one_that_may_be_opened_is_left_alone),
      cmocka_unit_test(a_missing_plugin_is_said),          cmocka_unit_test(a_wish_that_names_nothing_is_said),
      cmocka_unit_test(only_what_may_be_opened_is_chosen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
