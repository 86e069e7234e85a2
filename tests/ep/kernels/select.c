// Which kernel variant is used: the best one, or the one that the environment names, if this machine supports it.
#include "cmocka_all.h"
#include "ep/kernels/kernels.h"
#include <stdlib.h>

static void finds_every_variant_by_its_name(void **state) {
  (void)state;
  const struct ep_kernels *const *all = ep_kernels_all();
  assert_string_equal(all[0]->name, "portable");
  for (; *all; all++)
    assert_ptr_equal(ep_kernels_named((*all)->name), *all);
  assert_null(ep_kernels_named("abacus"));
  assert_null(ep_kernels_named(""));
}

static void serves_with_the_one_that_is_wanted_or_the_best(void **state) {
  (void)state;
  const struct ep_kernels *const *all = ep_kernels_all();
  size_t last = 0;
  while (all[last + 1])
    last++;
  const char *wanted = getenv("WEFT_EP_KERNELS");
  const struct ep_kernels *named = wanted ? ep_kernels_named(wanted) : NULL;
  assert_ptr_equal(ep_kernels_best(), named ? named : all[last]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_every_variant_by_its_name),
      cmocka_unit_test(serves_with_the_one_that_is_wanted_or_the_best),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
