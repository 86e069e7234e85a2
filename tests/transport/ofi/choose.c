// What libfabric is asked for, when memory runs out.
#include "cmocka_all.h"

#include <rdma/fabric.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ofi/ofi.h"

static int wrap_failing; // number of the strdup() call that fails, from 1; 0: none
static int wrap_asked;   // calls of fi_getinfo()

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
int __wrap_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                      const struct fi_info *hints, struct fi_info **info);

char *__wrap_strdup(const char *text) {
  return wrap_failing > 0 && --wrap_failing == 0 ? NULL : __real_strdup(text);
}

// There is nothing; but without the device and the provider's name another one might be chosen.
int __wrap_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                      const struct fi_info *hints, struct fi_info **info) {
  (void)version, (void)node, (void)service, (void)flags, (void)info;
  wrap_asked++;
  assert_string_equal(hints->domain_attr->name, "eth7");
  assert_string_equal(hints->fabric_attr->prov_name, "tcp");
  return -FI_ENODATA;
}

static int choose(int failing) {
  const char *const settings[] = {"provider=tcp", NULL};
  const struct transport_options options = {.size = sizeof options, .device = "eth7", .settings = settings};
  struct fi_info *info;
  wrap_failing = failing;
  wrap_asked = 0;
  return ofi_choose(&options, &info);
}

static void test_device_and_provider_are_asked_for(void **state) {
  (void)state;
  assert_int_equal(choose(0), WEFT_ERR_UNSUPPORTED);
  assert_true(wrap_asked > 0);
}

static void test_nothing_is_asked_for_without_memory(void **state) {
  (void)state;
  for (int failing = 1; failing <= 2; failing++) {
    assert_int_equal(choose(failing), WEFT_ERR_NOMEM);
    assert_int_equal(wrap_asked, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_device_and_provider_are_asked_for),
      cmocka_unit_test(test_nothing_is_asked_for_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
