// Finds the point of an operation at which a test stops or kills the rank.
#include "ep/view/support/fault_point.h"

#include "ep/host/host.h"

static struct {
  struct rank *rank; // NULL: not armed
  enum place place;
  void (*strike)(struct rank *rank);
  bool combining; // in combine_send; else in dispatch_send
  uint32_t rows;  // the rows that it has begun to send
  bool sending;
} armed;

static const struct ep_kernels *real;
static struct ep_kernels watched;

static void strike(void) {
  struct rank *rank = armed.rank;
  armed.rank = NULL;
  armed.strike(rank);
}

// The number of peers to which this rank has sent everything, including the flag.
static uint32_t flags_up(void) {
  struct weft_ep *ep = armed.rank->ep;
  uint64_t number = ep->next_op - armed.combining; // next_op is incremented at the end of dispatch_send
  struct ep_op *op = &ep->host->ops[number % EP_DEPTH];
  uint32_t up = 0;
  for (uint32_t i = 0; i < op->num_members; i++) {
    if (!op->members[i].link)
      continue;
    struct ep_slot_head *slot = ep_slot(&ep->layout, op->members[i].link->out.memory, number);
    up += armed.combining ? atomic_load(&slot->combine.flag) >= ep_answer_flag(&ep->layout, number, 0, 0, 0)
                          : atomic_load(&slot->dispatch.flag) == number + 1;
  }
  return up;
}

// Called before each row is sent.
static void row(void) {
  if (!armed.rank || !armed.sending)
    return;
  uint32_t up = flags_up();
  enum place first = armed.combining ? PLACE_COMBINE_FIRST_ROW : PLACE_DISPATCH_FIRST_ROW;
  bool here = (armed.place == first && armed.rows == 0) || (armed.place == first + 1 && armed.rows == 3 && up == 0) ||
              (armed.place == first + 2 && up == 1);
  armed.rows++;
  if (here)
    strike();
}

static void copy(void *to, const void *from, size_t size) {
  row();
  real->copy(to, from, size);
}

static void stream(void *to, const void *from, size_t size) {
  row();
  real->stream(to, from, size);
}

static void reduce(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count, float factor,
                   uint32_t hidden) {
  row();
  real->reduce(out, rows, weights, count, factor, hidden);
}

static void begin_half(bool combining) {
  armed.combining = combining;
  armed.rows = 0;
  armed.sending = true;
}

void place_arm(struct rank *rank, enum place place, void (*strike_fn)(struct rank *rank)) {
  if (!real)
    real = rank->ep->kernels;
  watched = *real;
  watched.copy = copy;
  watched.stream = stream;
  watched.reduce = reduce;
  rank->ep->kernels = &watched;
  armed.rank = rank;
  armed.place = place;
  armed.strike = strike_fn;
  begin_half(false);
}

void place_reach(struct rank *rank, enum rank_step step) {
  static const enum place places[] = {
      [RANK_SENT] = PLACE_DISPATCH_SENT,
      [RANK_HEARD] = PLACE_DISPATCH_HEARD,
      [RANK_ANSWERED] = PLACE_COMBINE_SENT,
      [RANK_ENDED] = PLACE_BETWEEN,
  };
  if (armed.rank != rank)
    return;
  if (armed.place == places[step]) {
    strike();
    return;
  }
  armed.sending = false;
  if (step == RANK_HEARD || step == RANK_ENDED)
    begin_half(step == RANK_HEARD);
}
