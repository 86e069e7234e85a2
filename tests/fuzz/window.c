// Data that a peer writes into its window. Two ranks of this process are connected over a local store. One of them runs
// operations, and the harness writes for the other: a valid slot, changed by the input's patches. For any contents,
// operations return, nothing outside of the buffers is touched, and the received layout stays within its bounds.
//
// An input: a byte of choices, then patches of two bytes of offset in the slot, one of length, and the bytes.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ep/core/engine.h"
#include "fuzz/support/fuzz.h"

enum { TOKENS = 8, HIDDEN = 128, TOPK = 4, EXPERTS = 2, CAPACITY = 4, OPEN_MS = 60000, OPERATION_MS = 20 };

enum {
  CHOICE_RANK_MAJOR = 1,
  CHOICE_LATE_WEIGHTS = 2,
  CHOICE_FP8 = 4,
  CHOICE_FEW_ROWS = 8,
  CHOICE_BARRIER = 16,
  CHOICE_PACKED = 32,
  CHOICE_WEIGHTS_BACK = 64
};

// Rows that are enough in any layout.
enum { ENOUGH = TOKENS * 2 * TOPK + EXPERTS * 4, ALIGNMENT = 3 };

struct pair {
  weft_store_t *store;
  weft_ep_t *own, *peer; // `peer` runs no operation: the harness writes in its place
};

// What an operation reads and writes: each block of the very size that it may use.
struct buffers {
  uint16_t x[TOKENS * HIDDEN];
  int64_t experts[TOKENS * TOPK];
  float weights[TOKENS * TOPK];
  struct weft_ep_recv_args recv;
  uint16_t *y, *out;
  float *out_weights;
};

// PACKED where both are chosen.
static enum weft_ep_layout layout_of(uint8_t choices) {
  return choices & CHOICE_PACKED       ? WEFT_EP_PACKED
         : choices & CHOICE_RANK_MAJOR ? WEFT_EP_RANK_MAJOR
                                       : WEFT_EP_PER_EXPERT;
}

static void *activate(void *arg) {
  FUZZ_CHECK(weft_ep_activate(arg, OPEN_MS) == 0);
  return NULL;
}

static void open_rank(weft_ep_t **ep, weft_store_t *store, int32_t rank, enum weft_ep_dtype dtype) {
  static const int32_t founders[] = {0, 1};
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.rank = rank;
  options.capacity = CAPACITY;
  options.founders = founders;
  options.num_founders = 2;
  options.max_tokens = TOKENS;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  options.experts_per_rank = EXPERTS;
  options.dtype = dtype;
  options.op_timeout_ms = OPERATION_MS;
  FUZZ_CHECK(weft_ep_open(ep, &options, OPEN_MS) == 0);
}

static void open_pair(struct pair *pair, enum weft_ep_dtype dtype) {
  pthread_t thread;
  FUZZ_CHECK(weft_store_open_local(&pair->store) == 0);
  open_rank(&pair->own, pair->store, 0, dtype);
  open_rank(&pair->peer, pair->store, 1, dtype);
  FUZZ_CHECK(pthread_create(&thread, NULL, activate, pair->peer) == 0);
  activate(pair->own);
  pthread_join(thread, NULL);
}

static void close_pair(struct pair *pair) {
  weft_ep_close(pair->peer);
  weft_ep_close(pair->own);
  weft_store_close(pair->store);
  *pair = (struct pair){0};
}

static void make_buffers(struct buffers *b, uint8_t choices, uint32_t rows) {
  bool fp8 = choices & CHOICE_FP8;
  enum weft_ep_layout layout = layout_of(choices);
  bool by_rank = layout == WEFT_EP_RANK_MAJOR, packed = layout == WEFT_EP_PACKED;
  size_t total = (size_t)rows * (layout == WEFT_EP_PER_EXPERT ? EXPERTS : 1);
  for (size_t i = 0; i < TOKENS * HIDDEN; i++)
    b->x[i] = 0x3F80; // 1
  for (size_t i = 0; i < TOKENS * TOPK; i++) {
    b->experts[i] = (int64_t)(i % TOPK); // this rank's two and the peer's two
    b->weights[i] = 0.25f;
  }
  b->recv = (struct weft_ep_recv_args){
      .size = sizeof b->recv,
      .layout = layout,
      .rows = rows,
      .x = malloc(total * HIDDEN * (fp8 ? 1 : 2)),
      .scales = fp8 ? malloc(total * (HIDDEN / WEFT_EP_BLOCK) * sizeof(float)) : NULL,
      .counts = malloc(EXPERTS * sizeof(int32_t)),
      .src_rank = malloc(total * sizeof(int32_t)),
      .src_token = malloc(total * sizeof(int32_t)),
      .range = malloc((by_rank ? 1 : EXPERTS) * CAPACITY * sizeof(int64_t)),
      .local_expert = by_rank ? malloc(total * TOPK * sizeof(int32_t)) : NULL,
      .weights = by_rank ? malloc(total * TOPK * sizeof(float)) : NULL,
      .slot = packed ? malloc(total * TOPK * sizeof(int32_t)) : NULL,
      .expert_end = packed ? malloc(EXPERTS * sizeof(int32_t)) : NULL,
      .alignment = packed ? ALIGNMENT : 0,
      .flags = packed ? WEFT_EP_RECV_ZERO_PADDING : 0,
  };
  b->y = calloc(total * HIDDEN, sizeof *b->y);
  b->out = malloc(TOKENS * HIDDEN * sizeof *b->out);
  b->out_weights = malloc(TOKENS * TOPK * sizeof *b->out_weights);
}

static void free_buffers(struct buffers *b) {
  void *blocks[] = {b->recv.x,
                    b->recv.scales,
                    b->recv.counts,
                    b->recv.src_rank,
                    b->recv.src_token,
                    b->recv.range,
                    b->recv.local_expert,
                    b->recv.weights,
                    b->recv.slot,
                    b->recv.expert_end,
                    b->y,
                    b->out,
                    b->out_weights};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
    free(blocks[i]);
}

// What a peer writes that has a row for each of its tokens, each with both of this rank's experts; all flags are up.
static void write_slot(const weft_ep_t *ep, struct ep_link *link, uint64_t op, uint8_t choices) {
  struct ep_slot_head *slot = ep_slot(&ep->layout, link->in.memory, op);
  bool barrier = choices & CHOICE_BARRIER;
  memset(slot, 0, ep->layout.slot);
  slot->dispatch.active = slot->dispatch.ready = ep->view->epoch;
  slot->dispatch.count = barrier ? 0 : TOKENS;
  slot->dispatch.kind = barrier ? EP_KIND_BARRIER : EP_KIND_DISPATCH;
  slot->dispatch.traits = choices & CHOICE_LATE_WEIGHTS ? 0 : EP_TRAIT_WEIGHTS;
  slot->dispatch.dtype = (uint8_t)ep->dtype;
  slot->dispatch.topk = (uint8_t)ep->layout.topk;
  slot->dispatch.row_bytes = (uint32_t)ep->layout.value_bytes;
  slot->dispatch.scale_bytes = (uint32_t)ep->layout.scale_bytes;
  for (uint32_t i = 0; i < slot->dispatch.count; i++) {
    struct ep_row *row = ep_row_at(&ep->layout, (char *)slot + ep->layout.heads, i);
    *row = (struct ep_row){.token = (int32_t)i, .count = EXPERTS, .places = (1u << EXPERTS) - 1};
    for (int16_t e = 0; e < EXPERTS; e++) {
      ep_row_weights(row)[e] = 0.5f;
      ep_row_experts(&ep->layout, row)[e] = e;
    }
  }
  slot->weights.flag = ep_answer_flag(&ep->layout, op, 0, 0, 0);
  uint32_t brings = ep->combine_dtype | (choices & CHOICE_WEIGHTS_BACK ? EP_ANSWER_WEIGHTS : 0);
  slot->combine.flag = ep_answer_flag(&ep->layout, op, 0, 0, brings);
  slot->dispatch.flag = op + 1;
}

static void lay_patches(const weft_ep_t *ep, struct ep_link *link, uint64_t op, struct fuzz_input *input) {
  char *slot = (char *)ep_slot(&ep->layout, link->in.memory, op);
  while (input->size > 0) {
    uint16_t offset;
    uint8_t length;
    fuzz_bytes(input, &offset, sizeof offset);
    fuzz_bytes(input, &length, sizeof length);
    size_t at = offset % ep->layout.slot, room = ep->layout.slot - at;
    fuzz_bytes(input, slot + at, length < room ? length : room);
  }
}

// As a peer that has taken everything.
static void take_all(const weft_ep_t *ep, struct ep_link *link, uint64_t op) {
  struct ep_slot_head *slot = ep_slot(&ep->layout, link->out.memory, op);
  atomic_store(&slot->taken.dispatch, op + 1);
  atomic_store(&slot->taken.combine, ep_answer_flag(&ep->layout, op, 0, 0, 0));
}

static void check_received(const struct buffers *b, const struct weft_ep_info *info) {
  const struct weft_ep_recv_args *recv = &b->recv;
  bool by_rank = recv->layout == WEFT_EP_RANK_MAJOR, packed = recv->layout == WEFT_EP_PACKED;
  uint32_t rows = 0;
  for (uint32_t e = 0; e < EXPERTS; e++) {
    FUZZ_CHECK(recv->counts[e] >= 0 && (by_rank || (uint32_t)recv->counts[e] <= recv->rows));
    rows += (uint32_t)recv->counts[e];
    for (int32_t i = 0; !by_rank && i < recv->counts[e]; i++) {
      size_t row = packed ? (size_t)(recv->expert_end[e] - 1 - i) : (size_t)e * recv->rows + (size_t)i;
      FUZZ_CHECK(!packed || row < recv->rows);
      FUZZ_CHECK(recv->src_rank[row] == 0 || recv->src_rank[row] == 1);
      FUZZ_CHECK(recv->src_token[row] >= 0 && recv->src_token[row] < TOKENS);
    }
  }
  FUZZ_CHECK(by_rank ? info->num_rows <= recv->rows : info->num_rows == rows);
  for (uint32_t i = 0; by_rank && i < info->num_rows * TOPK; i++)
    FUZZ_CHECK(recv->local_expert[i] >= -1 && recv->local_expert[i] < EXPERTS);
}

// One whole operation against a slot that the input has written.
static void operate(struct pair *pair, struct ep_link *link, uint8_t choices, struct fuzz_input *input) {
  weft_ep_t *ep = pair->own;
  struct buffers b = {0};
  bool late = choices & CHOICE_LATE_WEIGHTS && layout_of(choices) != WEFT_EP_RANK_MAJOR;
  make_buffers(&b, choices, choices & CHOICE_FEW_ROWS ? TOKENS : ENOUGH);
  struct weft_ep_dispatch_args dispatch = WEFT_EP_DISPATCH_ARGS_INIT;
  dispatch.x = b.x;
  dispatch.num_tokens = TOKENS;
  dispatch.topk_idx = b.experts;
  dispatch.topk_weights = late ? NULL : b.weights;
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  uint64_t op = weft_ep_next_op(ep);
  write_slot(ep, link, op, choices);
  lay_patches(ep, link, op, input);
  FUZZ_CHECK(weft_ep_dispatch_send(ep, &dispatch, &op) == 0);
  int rc = weft_ep_dispatch_recv(ep, op, &b.recv, &info);
  if (rc == WEFT_ERR_ROOM) { // it says how much would do; what there is at most does
    free_buffers(&b);
    make_buffers(&b, choices & ~CHOICE_FEW_ROWS, ENOUGH);
    rc = weft_ep_dispatch_recv(ep, op, &b.recv, &info);
  }
  take_all(ep, link, op);
  if (rc == WEFT_ERR_PROTOCOL) { // the peer dispatches another type, or another top-k: the operation has ended
    free_buffers(&b);
    return;
  }
  FUZZ_CHECK(rc == 0 && info.num_lost <= 1);
  check_received(&b, &info);
  combine.y = b.y;
  combine.topk_weights = late ? b.weights : NULL;
  combine.out = b.out;
  combine.out_weights = choices & CHOICE_WEIGHTS_BACK ? b.out_weights : NULL;
  FUZZ_CHECK(weft_ep_combine(ep, op, &combine, &result) == 0 && result.num_lost <= 1);
  free_buffers(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct pair pairs[2]; // by dtype; kept while the peer is not lost
  struct fuzz_input input = {(const char *)data, size};
  uint8_t choices;
  fuzz_bytes(&input, &choices, 1);
  struct pair *pair = &pairs[(choices & CHOICE_FP8) != 0];
  if (!pair->own)
    open_pair(pair, choices & CHOICE_FP8 ? WEFT_EP_FP8 : WEFT_EP_BF16);
  struct ep_link *link = ep_link_find(pair->own, 1, 0);
  FUZZ_CHECK(link);
  uint64_t epoch = pair->own->view->epoch;
  operate(pair, link, choices, &input);
  // A link that went down may be freed by now.
  if (ep_link_find(pair->own, 1, 0) != link || pair->own->view->epoch != epoch || pair->own->lost > 0)
    close_pair(pair);
  return 0;
}
