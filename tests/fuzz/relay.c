// What the relay of a rank on CUDA memory gets from another host: batches, which it puts into a window. Nothing is
// written outside of the window, and what it collects afterwards, since answers depend on what came, fits its room.
//
// An input: batches, each two bytes of size before it.
#include "cuda/engine/relay.h"

#include <stdlib.h>
#include <string.h>
#include <weft/ep.h>

#include "cuda/kernels/layout.h"
#include "fuzz/support/fuzz.h"

enum { TOKENS = 6, HIDDEN = 256, TOPK = 4, EXPERTS = 3, ROOM = 8192 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const struct device_ep_options options = {.capacity = 4,
                                            .max_tokens = TOKENS,
                                            .hidden = HIDDEN,
                                            .topk = TOPK,
                                            .experts_per_rank = EXPERTS,
                                            .dtype = WEFT_EP_BF16,
                                            .combine_dtype = WEFT_EP_COMBINE_BF16};
  struct cuda_layout layout;
  struct cuda_forms forms;
  cuda_layout_init(&layout, &forms, TOKENS, HIDDEN, TOPK, EXPERTS, options.dtype, options.combine_dtype);
  char *in = aligned_alloc(CUDA_LINE, layout.area), *out = aligned_alloc(CUDA_LINE, layout.area), why[DEVICE_WHY] = "";
  char *room = aligned_alloc(CUDA_LINE, ROOM);
  FUZZ_CHECK(in && out && room);
  cuda_area_init(in, layout.area);
  memset(out, 1, layout.area); // nothing is empty: answers are taken as soon as rows are known
  struct device_relay *relay;
  FUZZ_CHECK(cuda_relay_open(&options, in, out, &relay, why) == 0);
  for (struct fuzz_input input = {(const char *)data, size}; input.size > 0;) {
    uint16_t length;
    fuzz_bytes(&input, &length, sizeof length);
    char *batch = malloc(length); // of this very size, so that a read behind it shows
    fuzz_bytes(&input, batch, length);
    if (cuda_relay_deliver(relay, batch, length, why) != 0)
      FUZZ_CHECK(*why);
    free(batch);
    FUZZ_CHECK(cuda_relay_collect(relay, room, ROOM) <= ROOM);
  }
  cuda_relay_close(relay);
  free(room);
  free(out);
  free(in);
  return 0;
}
