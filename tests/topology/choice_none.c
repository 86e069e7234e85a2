// The choice of NICs in a build without hwloc: no NIC is known, and no call fails.
#include "cmocka_all.h"
#include <stdio.h>
#include <string.h>
#include <weft/err.h>

#include "topology/served/exports.h"

static void nothing_is_known_and_nothing_fails(void **state) {
  (void)state;
  struct topology_choice *choice = NULL;
  assert_int_equal(topology_choose(&choice, &(struct topology_choice_options){.nics = ""}), 0);
  assert_false(choice->known);
  assert_int_equal(choice->num_gpus + choice->num_nics + choice->num_nodes, 0);
  assert_int_equal(topology_gpu_at(choice, "0000:01:00.0"), -1);
  json_t *description = topology_choice_describe(choice);
  assert_true(json_is_false(json_object_get(description, "known")));
  json_decref(description);
  topology_choice_free(choice);
  topology_choice_free(NULL);
}

static void a_wish_cannot_be_granted(void **state) {
  (void)state;
  struct topology_choice *choice = NULL;
  assert_int_equal(topology_choose(&choice, &(struct topology_choice_options){.nics = "mlx5_0"}), WEFT_ERR_INVALID);
  assert_null(choice);
}

static void the_route_is_reported_all_the_same(void **state) {
  (void)state;
  struct topology_choice *choice = NULL;
  struct topology_export exports[TOPOLOGY_EXPORTS];
  assert_int_equal(topology_choose(&choice, &(struct topology_choice_options){.nics = ""}), 0);
  struct topology_exports_facts facts = {.choice = choice, .gpu = -1, .interface = "eth0"};
  size_t count = topology_exports(&facts, exports), set = 0;
  for (size_t i = 0; i < count; i++) {
    set += exports[i].set;
    if (exports[i].set)
      assert_non_null(strstr(exports[i].value, "eth0"));
  }
  assert_true(set > 0);
  topology_choice_free(choice);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_known_and_nothing_fails),
      cmocka_unit_test(a_wish_cannot_be_granted),
      cmocka_unit_test(the_route_is_reported_all_the_same),
  };
  return cmocka_run_group_tests_name("choice of NICs without hwloc", tests, NULL, NULL);
}
