// How the registry loads shared modules: those named in the environment.
#include "cmocka_all.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "transport/transport.h"

// Where the dynamic linker has it from.
static const char *library_path(const char *name) {
  void *library = dlopen(name, RTLD_NOW);
  struct link_map *map = NULL;
  assert_non_null(library);
  assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
  return map->l_name;
}

static void test_what_is_no_plugin_is_reported(void **state) {
  (void)state;
  const struct transport *transport = NULL;
  setenv("WEFT_UCX_PLUGIN", "/nowhere/libweft_ucx.so.0", 1);
  assert_int_equal(transport_find("ucx", &transport), WEFT_ERR_UNSUPPORTED);
  assert_non_null(strstr(weft_last_error(), "/nowhere/libweft_ucx.so.0 (from WEFT_UCX_PLUGIN)"));
  setenv("WEFT_UCX_PLUGIN", library_path("libm.so.6"), 1);
  assert_int_equal(transport_find("ucx", &transport), WEFT_ERR_UNSUPPORTED);
  assert_non_null(strstr(weft_last_error(), "libm.so.6 is not the ucx plug-in of Weft"));
  setenv("WEFT_UCX_PLUGIN", FAKE_OTHER, 1);
  assert_int_equal(transport_find("ucx", &transport), WEFT_ERR_UNSUPPORTED);
  assert_non_null(strstr(weft_last_error(), "another version"));
  assert_null(transport);
}

static void test_a_plugin_is_loaded_and_its_failures_are_ours(void **state) {
  (void)state;
  const struct transport *transport = NULL, *again = NULL;
  setenv("WEFT_UCX_PLUGIN", FAKE_PLUGIN, 1);
  assert_int_equal(transport_find("ucx", &transport), 0);
  assert_string_equal(transport->name, "ucx");
  struct sigaction action;
  assert_int_equal(sigaction(SIGUSR2, NULL, &action), 0);
  assert_true(action.sa_handler == SIG_DFL); // the plug-in had changed it
  setenv("WEFT_UCX_PLUGIN", "/nowhere", 1);  // it is kept
  assert_int_equal(transport_find("ucx", &again), 0);
  assert_ptr_equal(transport, again);

  char why[8];
  assert_int_equal(transport->probe(why, sizeof why), WEFT_ERR_UNSUPPORTED);
  assert_string_equal(weft_last_error(), "the plug-in says 42");
  struct transport_worker *worker;
  assert_int_equal(transport->open(NULL, &worker), WEFT_ERR_UNREACHABLE);
  assert_string_equal(weft_last_error(), "opening: no road");
  fail_context(0, "here");
  assert_string_equal(weft_last_error(), "here: opening: no road");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_no_plugin_is_reported),
      cmocka_unit_test(test_a_plugin_is_loaded_and_its_failures_are_ours),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
