// Zero-copy memory on CUDA memory, on a plug-in without a GPU: which ranks map whose memory, and what is refused.
#include "ep/gpu/support/fake_ranks.h"

enum { BYTES = 100000 };

static struct weft_ep_options options_of(int32_t rank, uint32_t founders) {
  static const int32_t list[] = {0, 1, 2};
  struct weft_ep_options options = fake_options(rank, founders ? list : NULL, founders);
  options.mode = WEFT_EP_THROUGHPUT;
  options.zero_copy_bytes = BYTES;
  return options;
}

// The plug-in writes into what it maps: byte i of a rank's memory is i + 1 if rank i has mapped it.
static void assert_mapped_by(const weft_ep_t *ep, int32_t rank, bool mapped) {
  uint64_t bytes = 0;
  const uint8_t *memory = weft_ep_get_zero_copy_memory(ep, &bytes);
  assert_non_null(memory);
  assert_int_equal(bytes, BYTES);
  assert_int_equal(memory[rank], mapped ? rank + 1 : 0);
}

static void operate(weft_ep_t **eps, uint32_t count) {
  for (int i = 0; i < 3; i++) {
    struct weft_ep_info info = WEFT_EP_INFO_INIT;
    fake_operate(eps, count, &info);
    assert_int_equal(info.num_lost, 0);
  }
}

static void peers_map_it_and_joiners_too(void **state) {
  (void)state;
  weft_ep_t *eps[3];
  struct fake_activation activations[2];
  for (int32_t i = 0; i < 2; i++)
    eps[i] = fake_open(options_of(i, 2));
  for (int32_t i = 0; i < 2; i++)
    fake_begin(&activations[i], eps[i]);
  for (int32_t i = 0; i < 2; i++)
    fake_end(&activations[i]);
  assert_mapped_by(eps[0], 1, true);
  assert_mapped_by(eps[1], 0, true);
  assert_mapped_by(eps[0], 2, false);
  operate(eps, 2);
  fake_join(eps, 3, options_of(2, 0));
  for (int32_t i = 0; i < 3; i++)
    for (int32_t j = 0; j < 3; j++)
      assert_mapped_by(eps[i], j, i != j);
  operate(eps, 3);
  for (int32_t i = 0; i < 3; i++)
    weft_ep_close(eps[i]);
}

static void memory_that_cannot_be_is_refused(void **state) {
  (void)state;
  weft_ep_t *ep = NULL;
  struct weft_ep_options options = options_of(0, 0);
  options.mode = WEFT_EP_LATENCY;
  assert_int_equal(weft_ep_open(&ep, &options, DEADLINE_MS), WEFT_ERR_INVALID);
  assert_says("zero_copy_bytes is given, but the group is opened for LATENCY");
}

static void memory_of_no_gpu_is_the_hosts_if_it_may_be(void **state) {
  (void)state;
  weft_ep_t *ep = NULL;
  uint64_t bytes = 0;
  struct weft_ep_options options = options_of(0, 0);
  setenv("FAKE_FULL", "1", 1);
  assert_int_equal(weft_ep_open(&ep, &options, DEADLINE_MS), WEFT_ERR_NOMEM);
  assert_says("zero_copy_bytes");
  options.memory = WEFT_EP_MEMORY_AUTO;
  ep = fake_open(options);
  unsetenv("FAKE_FULL");
  assert_int_equal(weft_ep_get_memory(ep, NULL), WEFT_EP_MEMORY_HOST);
  assert_non_null(weft_ep_get_zero_copy_memory(ep, &bytes));
  assert_int_equal(bytes, BYTES);
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  assert_ok(weft_ep_barrier(ep));
  weft_ep_close(ep);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_open_store, fake_close_store)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(peers_map_it_and_joiners_too),
      TEST(memory_that_cannot_be_is_refused),
      TEST(memory_of_no_gpu_is_the_hosts_if_it_may_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
