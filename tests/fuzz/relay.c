// Batches from another host, which the relay of a rank on CUDA memory writes into a window. Nothing is written outside
// of the window. Answers depend on what arrived, so what the relay collects afterwards must fit its room.
//
// An input: batches, each behind two bytes of size. A latency group gets them first, then a throughput group.
#include "cuda/relay/relay.h"

#include <stdlib.h>
#include <string.h>
#include <weft/ep.h>

#include "cuda/engine/flow_layout.h"
#include "fuzz/support/fuzz.h"

enum { TOKENS = 6, HIDDEN = 256, TOPK = 4, EXPERTS = 3, ROOM = 8192, MOVES = 4 };

// A group and its windows, which stay for all inputs.
struct group {
  struct device_ep_options options;
  size_t window, changing; // bytes; from the begin, those that an input changes or that have to be right for it
  char *in, *out;
};

static void open_group(struct group *group) {
  struct cuda_layout layout;
  struct cuda_forms forms;
  struct cuda_flow flow;
  uint64_t offset;
  cuda_area_of(&group->options, &layout, &forms);
  cuda_flow_of(&group->options, &flow, &offset);
  bool throughput = group->options.throughput;
  group->window = throughput ? offset + flow.bytes : layout.area;
  group->changing = throughput ? offset + sizeof(struct cuda_flow_head) : layout.area;
  group->in = aligned_alloc(CUDA_LINE, group->window);
  group->out = aligned_alloc(CUDA_LINE, group->window);
  FUZZ_CHECK(group->in && group->out);
  memset(group->out, 1, group->window);
}

// Moves lie in the rings.
static void collect(struct device_relay *relay, bool moves) {
  static _Alignas(CUDA_LINE) char room[ROOM];
  struct device_move list[MOVES];
  struct device_moves with = {.list = list, .room = MOVES, .most = ROOM, .number = 1};
  uint64_t offset, bytes;
  cuda_relay_rings(relay, &offset, &bytes);
  FUZZ_CHECK(cuda_relay_collect(relay, room, ROOM, moves ? &with : NULL, NULL) <= ROOM);
  FUZZ_CHECK(with.count <= MOVES && with.bytes <= ROOM);
  for (uint32_t i = 0; i < with.count; i++)
    FUZZ_CHECK(list[i].offset >= offset && list[i].bytes <= bytes && list[i].offset - offset <= bytes - list[i].bytes);
}

// Even numbers are those of a window of a neighbour.
static const char *find_window(void *arg, uint64_t window) {
  return window % 2 ? NULL : arg;
}

static bool holds(void *arg) {
  (void)arg;
  return true;
}

static void try_group(struct group *group, const uint8_t *data, size_t size) {
  struct device_relay *relay;
  char why[DEVICE_WHY] = "";
  if (!group->in)
    open_group(group);
  cuda_area_init(group->in, group->changing);
  FUZZ_CHECK(cuda_relay_open(&group->options, group->in, group->out, &relay, why) == 0);
  // Nothing is empty: answers are taken as soon as rows are known, and all channels have rows.
  memset(group->out, 1, group->changing);
  for (struct fuzz_input input = {(const char *)data, size}; input.size > 0;) {
    uint16_t length;
    fuzz_bytes(&input, &length, sizeof length);
    char *batch = malloc(length); // of this very size, so that a read behind it shows
    fuzz_bytes(&input, batch, length);
    const struct device_neighbours neighbours = {group->out, find_window, holds};
    if (cuda_relay_deliver(relay, batch, length, &neighbours, why) != 0)
      FUZZ_CHECK(*why);
    free(batch);
    collect(relay, length % 2);
  }
  cuda_relay_close(relay);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
#define OPTIONS                                                                                                        \
  .capacity = 4, .max_tokens = TOKENS, .hidden = HIDDEN, .topk = TOPK, .experts_per_rank = EXPERTS,                    \
  .dtype = WEFT_EP_BF16, .combine_dtype = WEFT_EP_COMBINE_BF16
  static struct group latency = {.options = {OPTIONS}};
  static struct group throughput = {.options = {OPTIONS, .throughput = true, .window_bytes = UINT32_MAX}};
  try_group(&latency, data, size);
  try_group(&throughput, data, size);
  return 0;
}
