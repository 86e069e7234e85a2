// Ranks that ask for CUDA memory where there is no plug-in for it.
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include <weft/weft.h>

#include "support/local_store.h"

static struct weft_ep_options options_for(enum weft_ep_memory memory) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.hidden = 128;
  options.max_tokens = 4;
  options.memory = memory;
  return options;
}

static void assert_says(const char *words) {
  if (!strstr(weft_last_error(), words))
    fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

static void cuda_memory_without_a_plugin_is_unsupported(void **state) {
  (void)state;
  struct weft_ep_options options = options_for(WEFT_EP_MEMORY_CUDA);
  weft_ep_t *ep = NULL;
  assert_int_equal(weft_ep_open(&ep, &options, 1000), WEFT_ERR_UNSUPPORTED);
  assert_null(ep);
  assert_says("weft_ep_open: memory is CUDA: ");
  assert_says(getenv("WEFT_CUDA_PLUGIN"));
  options.memory = WEFT_EP_MEMORY_HOST; // its rank is free
  options.rank = 0;
  assert_int_equal(weft_ep_open(&ep, &options, 1000), 0);
  weft_ep_close(ep);
}

static void auto_falls_back_to_host_memory(void **state) {
  (void)state;
  struct weft_ep_options options = options_for(WEFT_EP_MEMORY_AUTO);
  weft_ep_t *ep = NULL;
  int32_t device = 5;
  assert_int_equal(weft_ep_open(&ep, &options, 1000), 0);
  assert_int_equal(weft_ep_get_memory(ep, &device), WEFT_EP_MEMORY_HOST);
  assert_int_equal(device, -1);
  assert_int_equal(weft_ep_activate(ep, 1000), 0);
  assert_int_equal(weft_ep_barrier(ep), 0);
  weft_ep_close(ep);
}

static void memory_and_device_out_of_range_are_named(void **state) {
  (void)state;
  struct weft_ep_options options = options_for((enum weft_ep_memory)3);
  weft_ep_t *ep = NULL;
  assert_int_equal(weft_ep_open(&ep, &options, 1000), WEFT_ERR_INVALID);
  assert_says("memory is 3");
  options = options_for(WEFT_EP_MEMORY_AUTO);
  options.device = -2;
  assert_int_equal(weft_ep_open(&ep, &options, 1000), WEFT_ERR_INVALID);
  assert_says("device is -2");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cuda_memory_without_a_plugin_is_unsupported),
      cmocka_unit_test(auto_falls_back_to_host_memory),
      cmocka_unit_test(memory_and_device_out_of_range_are_named),
  };
  return cmocka_run_group_tests_name("ep_no_cuda_plugin", tests, open_store, close_store);
}
