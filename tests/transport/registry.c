// Transports are found by name, and an unknown name gets an error that lists them.
#include "cmocka_all.h"

#include <string.h>

#include "transport/transport.h"

static void test_unknown_name(void **state) {
  (void)state;
  const struct transport *transport = NULL;
  assert_int_equal(transport_find("smoke", &transport), WEFT_ERR_NOT_FOUND);
  assert_null(transport);
  for (const char *const *name = transport_names(); *name; name++)
    assert_non_null(strstr(weft_last_error(), *name));
}

static void test_known_names_are_found_or_not_in_this_build(void **state) {
  (void)state;
  for (const char *const *name = transport_names(); *name; name++) {
    const struct transport *transport = NULL;
    int rc = transport_find(*name, &transport);
    if (rc == 0)
      assert_string_equal(transport->name, *name);
    else
      assert_int_equal(rc, WEFT_ERR_UNSUPPORTED);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unknown_name),
      cmocka_unit_test(test_known_names_are_found_or_not_in_this_build),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
