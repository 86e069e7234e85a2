// A device and an engine on the fake CUDA, with which each test of the plug-in begins.
#include "cuda/support/plugin_case.h"

char why[DEVICE_WHY];
struct device *device;
struct device_ep *ep;

struct device_ep_options usual(void) {
  return (struct device_ep_options){.rank = RANK,
                                    .capacity = 8,
                                    .max_tokens = 16,
                                    .hidden = 256,
                                    .topk = 2,
                                    .experts_per_rank = 4,
                                    .dtype = WEFT_EP_FP8,
                                    .timeout_ns = 5000,
                                    .operations_per_step = 3};
}

int open_all(void **state) {
  (void)state;
  struct device_ep_options options = usual();
  fake = (struct fake_cuda){.mappable = true, .memory_per_member = 1024};
  why[0] = '\0';
  assert_int_equal(cuda_open(0, &device, why), 0);
  assert_int_equal(cuda_ep_open(device, &options, &ep, why), 0);
  return 0;
}

int close_all(void **state) {
  (void)state;
  fake.stuck = fake.capturing = false;
  cuda_ep_close(ep);
  cuda_close(device);
  assert_int_equal(fake.allocated, 0);
  assert_int_equal(fake.depth, 0); // every pushed context was popped
  return 0;
}

void assert_empty(const void *area, size_t size) {
  for (size_t i = 0; i < size; i++)
    assert_int_equal(((const uint8_t *)area)[i], i < sizeof(struct cuda_area_head) ? 0 : 0xFF);
}
