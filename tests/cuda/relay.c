// What two ranks on CUDA memory of different hosts exchange (cuda/relay/relay.h). Threads in place of kernels write
// units and lines in random order, data first and then the flag, and values word by word. They check all data behind a
// flag and each word that is not empty, and empty what they have read. A thread in place of the net threads carries the
// data in pieces of random sizes.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "cuda/kernels/layout.h"
#include "cuda/relay/relay.h"
#include "cuda/support/relay_plan.h"
#include "weft/err.h"

enum { DEADLINE_MS = 60000, BATCH = 32 << 10 };

typedef uint64_t __attribute__((may_alias)) word;

struct side {
  const struct plan *plan;
  uint32_t self;
  char *in, *out;
  struct device_relay *relay;
  uint64_t random;
  char error[160];
  _Atomic bool *stop;
};

static uint64_t next(struct side *side, uint64_t below) {
  return (side->random = plan_mix(side->random + 0x9E3779B97F4A7C15u)) % below;
}

// --- in the place of kernels ---

static void shuffle(struct side *side, struct items *items) {
  for (uint32_t i = items->count; i > 1; i--) {
    uint32_t j = (uint32_t)next(side, i);
    struct item item = items->item[j];
    items->item[j] = items->item[i - 1];
    items->item[i - 1] = item;
  }
}

// Word by word, beginning somewhere. What is written is empty before.
static void write_values(struct side *side, uint64_t op, const struct item *item, const value *values) {
  uint32_t count = item->bytes / 4, first = (uint32_t)next(side, count);
  for (uint32_t i = 0; i < count; i++) {
    value *to = (value *)(side->out + item->offset) + (first + i) % count;
    if (__atomic_load_n(to, __ATOMIC_RELAXED) != CUDA_EMPTY && !side->error[0])
      snprintf(side->error, sizeof side->error, "side %u, operation %llu: the place at %zu has not been emptied",
               side->self, (unsigned long long)op, item->offset);
    __atomic_store_n(to, values[(first + i) % count], __ATOMIC_RELAXED);
  }
}

static void write_items(struct side *side, uint64_t op, struct items *items) {
  shuffle(side, items);
  for (uint32_t i = 0; i < items->count; i++) {
    uint64_t words[16];
    uint32_t last = items->item[i].bytes / 8 - 1;
    plan_content(side->plan, side->self, op, &items->item[i], words);
    if (items->item[i].kind == VALUES) {
      write_values(side, op, &items->item[i], (const value *)words);
      continue;
    }
    word *to = (word *)(side->out + items->item[i].offset);
    for (uint32_t w = 0; w < last; w++)
      if (last == 1)
        __atomic_store_n(to + w, words[w], __ATOMIC_RELAXED); // a unit may be looked at while it is written
      else
        to[w] = words[w];
    __atomic_store_n(to + last, words[last], __ATOMIC_RELEASE);
  }
}

static bool wait_over(struct side *side, uint64_t deadline_ns, const char *what, uint64_t op) {
  if (!clock_passed(deadline_ns) && !atomic_load(side->stop))
    return false;
  if (!side->error[0])
    snprintf(side->error, sizeof side->error, "side %u, operation %llu: %s did not come", side->self,
             (unsigned long long)op, what);
  return true;
}

// Waits for each word of values, unless all have to be there, and compares it as soon as it is not empty.
static bool read_values(struct side *side, uint64_t op, const struct item *item, bool there, const char *what) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS), words[16];
  plan_content(side->plan, !side->self, op, item, words);
  for (uint32_t i = 0; i < item->bytes / 4; i++) {
    const value *from = (const value *)(side->in + item->offset) + i;
    uint32_t got, want = ((const value *)words)[i];
    while ((got = __atomic_load_n(from, __ATOMIC_RELAXED)) == CUDA_EMPTY) {
      if (wait_over(side, there ? 0 : deadline_ns, what, op))
        return false;
      sched_yield();
    }
    if (got != want) {
      snprintf(side->error, sizeof side->error, "side %u, operation %llu: %s at %zu is %08x, not %08x", side->self,
               (unsigned long long)op, what, item->offset + i * 4, got, want);
      return false;
    }
  }
  return true;
}

// What has been read of values: empty again, before the credit.
static void empty_items(struct side *side, const struct items *items) {
  for (uint32_t i = 0; i < items->count; i++)
    for (uint32_t w = 0; w < items->item[i].bytes / 4 && items->item[i].kind == VALUES; w++)
      __atomic_store_n((value *)(side->in + items->item[i].offset) + w, CUDA_EMPTY, __ATOMIC_RELAXED);
}

// Waits for each item, unless all have to be there, and compares it as soon as its flag is there.
static bool read_items(struct side *side, uint64_t op, struct items *items, bool there, const char *what) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  shuffle(side, items);
  for (uint32_t i = 0; i < items->count; i++) {
    uint64_t words[16], got[16];
    if (items->item[i].kind == VALUES) {
      if (!read_values(side, op, &items->item[i], there, what))
        return false;
      continue;
    }
    uint32_t last = items->item[i].bytes / 8 - 1;
    plan_content(side->plan, !side->self, op, &items->item[i], words);
    const word *from = (const word *)(side->in + items->item[i].offset);
    while ((got[last] = __atomic_load_n(from + last, __ATOMIC_ACQUIRE)) >> (last == 1 ? 32 : 0) !=
           words[last] >> (last == 1 ? 32 : 0)) {
      if (wait_over(side, there ? 0 : deadline_ns, what, op))
        return false;
      sched_yield();
    }
    for (uint32_t w = 0; w < last; w++)
      got[w] = last == 1 ? __atomic_load_n(from + w, __ATOMIC_RELAXED) : from[w];
    if (memcmp(got, words, items->item[i].bytes) == 0)
      continue;
    snprintf(side->error, sizeof side->error, "side %u, operation %llu: %s at %zu is wrong behind its flag", side->self,
             (unsigned long long)op, what, items->item[i].offset);
    return false;
  }
  return true;
}

static bool await_taken(struct side *side, uint32_t which, uint64_t op) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  if (op < side->plan->first + CUDA_DEPTH)
    return true;
  while (__atomic_load_n((word *)side->in + which, __ATOMIC_ACQUIRE) + 1 < op) {
    if (wait_over(side, deadline_ns, "the credit", op))
      return false;
    sched_yield();
  }
  return true;
}

static void write_taken(struct side *side, uint32_t which, uint64_t op) {
  __atomic_store_n((word *)side->out + which, op + 1, __ATOMIC_RELEASE);
}

static bool send(struct side *side, uint64_t op, struct items *items) {
  if (!await_taken(side, 0, op))
    return false;
  plan_list_dispatch(side->plan, side->self, op, items);
  write_items(side, op, items);
  return true;
}

static bool receive(struct side *side, uint64_t op, struct items *items) {
  struct item header = {.offset = plan_slot(side->plan, op), .bytes = 16, .kind = UNIT};
  struct items alone = {.item = &header, .count = 1};
  plan_list_dispatch(side->plan, !side->self, op, items);
  if (!read_items(side, op, &alone, false, "a header") || !read_items(side, op, items, true, "a row"))
    return false;
  empty_items(side, items);
  write_taken(side, 0, op);
  return true;
}

static bool combine(struct side *side, uint64_t op, struct items *items) {
  if (!await_taken(side, 1, op))
    return false;
  plan_list_weights(side->plan, side->self, op, true, items);
  write_items(side, op, items);
  plan_list_weights(side->plan, !side->self, op, false, items);
  if (!read_items(side, op, items, false, "a weight"))
    return false;
  plan_list_answers(side->plan, !side->self, op, items); // of this side, to the peer's dispatch
  write_items(side, op, items);
  plan_list_answers(side->plan, side->self, op, items);
  if (!read_items(side, op, items, false, "an answer"))
    return false;
  empty_items(side, items);
  write_taken(side, 1, op);
  return true;
}

// Dispatches overlap with the combine before, or do not.
static void *run_side(void *arg) {
  struct side *side = arg;
  const struct plan *plan = side->plan;
  uint64_t sent = plan->first, end = plan->first + plan->ops;
  struct items items = {.item = calloc(plan->layout.area / 16, sizeof(struct item))};
  for (uint64_t op = plan->first; op < end; op++) {
    for (; sent < end && (sent == op || (sent == op + 1 && next(side, 2))); sent++)
      if (!send(side, sent, &items))
        goto out;
    if (!receive(side, op, &items))
      goto out;
    if (sent == op + 1 && sent < end && next(side, 2) && !send(side, sent++, &items))
      goto out;
    if (plan_drawn(plan, 0, op, 9) % 7 != 0 && !combine(side, op, &items)) // else both end it without
      goto out;
    if (plan_drawn(plan, 0, op, 9) % 7 == 0)
      write_taken(side, 1, op);
  }
out:
  if (side->error[0])
    atomic_store(side->stop, true);
  free(items.item);
  return NULL;
}

// --- in the place of the net threads ---

struct carrier {
  struct side *sides;
  _Atomic bool done;
  uint64_t batches;
  char error[DEVICE_WHY];
};

static void *carry(void *arg) {
  struct carrier *carrier = arg;
  static _Alignas(16) char bytes[BATCH];
  while (!atomic_load(&carrier->done)) {
    for (int i = 0; i < 2; i++) {
      size_t room = 1024 + next(&carrier->sides[i], BATCH - 1024);
      size_t size = cuda_relay_collect(carrier->sides[i].relay, bytes, room, NULL, NULL);
      if (size > room)
        snprintf(carrier->error, sizeof carrier->error, "%zu bytes were collected into %zu", size, room);
      if (size > 0 && cuda_relay_deliver(carrier->sides[!i].relay, bytes, size, NULL, carrier->error) == 0)
        carrier->batches++;
    }
  }
  return NULL;
}

static void open_side(struct side *side, const struct plan *plan, const struct device_ep_options *options,
                      uint32_t self, _Atomic bool *stop) {
  char why[DEVICE_WHY] = "";
  *side = (struct side){.plan = plan, .self = self, .random = plan->seed + self, .stop = stop};
  side->in = aligned_alloc(CUDA_LINE, plan->layout.area);
  side->out = aligned_alloc(CUDA_LINE, plan->layout.area);
  cuda_area_init(side->in, plan->layout.area);
  cuda_area_init(side->out, plan->layout.area);
  assert_int_equal(cuda_relay_open(options, side->in, side->out, &side->relay, why), 0);
}

static void close_side(struct side *side) {
  cuda_relay_close(side->relay);
  free(side->in);
  free(side->out);
}

static struct device_ep_options options_of(uint32_t topk, uint32_t hidden, int dtype, int combine_dtype) {
  return (struct device_ep_options){.max_tokens = TOKENS,
                                    .hidden = hidden,
                                    .topk = topk,
                                    .experts_per_rank = EXPERTS,
                                    .dtype = dtype,
                                    .combine_dtype = combine_dtype};
}

static void converse(const struct device_ep_options *o, uint64_t first, uint64_t ops, uint64_t seed) {
  struct plan plan = {.first = first, .ops = ops, .seed = seed};
  _Atomic bool stop = false;
  struct side sides[2], carried[2];
  struct carrier carrier = {.sides = carried};
  pthread_t threads[2], thread;
  print_message("seed %llu\n", (unsigned long long)seed);
  cuda_layout_init(&plan.layout, &plan.forms, o->max_tokens, o->hidden, o->topk, o->experts_per_rank, o->dtype,
                   o->combine_dtype);
  for (uint32_t i = 0; i < 2; i++) {
    open_side(&sides[i], &plan, o, i, &stop);
    carried[i] = sides[i]; // with random numbers of its own
  }
  assert_int_equal(pthread_create(&thread, NULL, carry, &carrier), 0);
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run_side, &sides[i]), 0);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  atomic_store(&carrier.done, true);
  pthread_join(thread, NULL);
  if (carrier.error[0] || sides[0].error[0] || sides[1].error[0])
    fail_msg("%s %s %s", carrier.error, sides[0].error, sides[1].error);
  assert_true(carrier.batches > ops);
  for (int i = 0; i < 2; i++)
    close_side(&sides[i]);
}

static void all_arrives_and_nothing_before_its_flag(void **state) {
  (void)state;
  static const struct {
    uint32_t topk, hidden;
    int dtype, combine_dtype;
  } shapes[] = {{4, 256, CUDA_BF16, CUDA_COMBINE_BF16},
                {16, 2048, CUDA_FP8, CUDA_COMBINE_LOGFMT10},
                {8, 1152, CUDA_FP8_UE8M0, CUDA_COMBINE_BF16},
                {2, 1280, CUDA_BF16, CUDA_COMBINE_LOGFMT10}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    struct device_ep_options options =
        options_of(shapes[i].topk, shapes[i].hidden, shapes[i].dtype, shapes[i].combine_dtype);
    converse(&options, 0, 150, 11 + i);
  }
}

static void operations_go_on_beyond_32_bits(void **state) {
  (void)state;
  struct device_ep_options options = options_of(4, 256, CUDA_BF16, CUDA_COMBINE_BF16);
  converse(&options, (UINT64_C(1) << 32) - 20, 60, 5);
}

// --- one by one ---

static void put_unit(struct side *side, size_t offset, uint64_t low, uint32_t c, uint32_t flag) {
  word *to = (word *)(side->out + offset);
  to[0] = low;
  to[1] = (uint64_t)flag << 32 | c;
}

static void nothing_is_taken_before_it_has_come(void **state) {
  (void)state;
  struct device_ep_options options = options_of(4, 256, CUDA_BF16, CUDA_COMBINE_BF16);
  struct plan plan = {0};
  _Atomic bool stop = false;
  struct side side;
  static _Alignas(16) char bytes[BATCH];
  cuda_layout_init(&plan.layout, &plan.forms, TOKENS, 256, 4, EXPERTS, CUDA_BF16, CUDA_COMBINE_BF16);
  open_side(&side, &plan, &options, 0, &stop);
  assert_int_equal(cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL), 0);
  size_t slot = plan_slot(&plan, 0);
  memset(side.out + slot + plan.layout.routing, 7, CUDA_LINE - 8); // data whose flag is not there
  put_unit(&side, slot, 2, 0, 1);                                  // two rows come
  assert_int_equal(cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL), 0);
  *(word *)(side.out + slot + plan.layout.routing + CUDA_LINE - 8) = 3; // another operation's
  assert_int_equal(cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL), 0);
  *(word *)(side.out + slot + plan.layout.routing + CUDA_LINE - 8) = 1;
  assert_int_equal(cuda_relay_collect(side.relay, bytes, 16 + CUDA_LINE - 1, NULL, NULL), 0); // no room
  assert_int_equal(cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL), 16 + CUDA_LINE);
  assert_int_equal(cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL), 0);
  // Its values go line by line, none of which has an empty word, and their places are empty then.
  value *row = (value *)(side.out + slot + plan.layout.rows);
  for (uint32_t i = 0; i < plan.layout.row.stride / 4; i++)
    row[i] = i == CUDA_LINE / 4 ? CUDA_EMPTY : i;
  assert_int_equal(cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL), 16 + CUDA_LINE);
  assert_int_equal(*(value *)(bytes + 16 + CUDA_LINE - 4), CUDA_LINE / 4 - 1);
  assert_int_equal(row[CUDA_LINE / 4 - 1], CUDA_EMPTY);
  assert_int_equal(row[CUDA_LINE / 4 + 1], CUDA_LINE / 4 + 1);
  assert_int_equal(cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL), 0);
  row[CUDA_LINE / 4] = 0;
  assert_int_equal(cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL),
                   16 + plan.layout.row.stride - CUDA_LINE);
  for (uint32_t i = 0; i < plan.layout.row.stride / 4; i++)
    assert_int_equal(row[i], CUDA_EMPTY);
  assert_int_equal(cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL), 0);
  // A header goes when all that belongs to it has gone; and the start that was published before it, earlier.
  slot = plan_slot(&plan, 1);
  put_unit(&side, slot, 0, 0, 2);
  put_unit(&side, slot + plan.layout.counts, 0, 0, 2);
  put_unit(&side, slot + plan.layout.counts + 16, 0, 0, 2);
  assert_int_equal(cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL), 0);
  put_unit(&side, slot + 16, 0, 0, 2); // the mark, which goes first
  assert_int_equal(cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL), 2 * 16 + 3 * 16);
  put_unit(&side, offsetof(struct cuda_area_head, start), 3, 1, 1);
  put_unit(&side, slot + plan.layout.counts + 32, 0, 0, 2);
  assert_int_equal(cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL), 3 * 32);
  assert_int_equal(*(uint32_t *)bytes, offsetof(struct cuda_area_head, start));
  assert_int_equal(*(uint32_t *)(bytes + 64), slot);
  close_side(&side);
}

// As often as it changes, and nothing beside it.
static void that_a_rank_waits_or_awaits_is_carried(void **state) {
  (void)state;
  struct device_ep_options options = options_of(4, 256, CUDA_BF16, CUDA_COMBINE_BF16);
  struct plan plan = {0};
  _Atomic bool stop = false;
  struct side side, peer;
  static _Alignas(16) char bytes[BATCH];
  char why[DEVICE_WHY];
  cuda_layout_init(&plan.layout, &plan.forms, TOKENS, 256, 4, EXPERTS, CUDA_BF16, CUDA_COMBINE_BF16);
  open_side(&side, &plan, &options, 0, &stop);
  open_side(&peer, &plan, &options, 1, &stop);
  struct cuda_area_head *out = (struct cuda_area_head *)side.out;
  const struct cuda_area_head *in = (const struct cuda_area_head *)peer.in;
  for (uint64_t sign = 5; sign < 8; sign++) {
    uint64_t *written = sign % 2 == 0 ? &out->awaits : &out->waiting;
    *written = sign;
    size_t size = cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL);
    assert_int_equal(size, 2 * 16);
    assert_int_equal(cuda_relay_collect(side.relay, bytes + size, sizeof bytes - size, NULL, NULL), 0);
    assert_int_equal(cuda_relay_deliver(peer.relay, bytes, size, NULL, why), 0);
    assert_int_equal(in->waiting, out->waiting);
    assert_int_equal(in->awaits, out->awaits);
    assert_int_equal(in->taken_dispatch + in->taken_combine + in->start.flag, 0);
  }
  close_side(&side);
  close_side(&peer);
}

static void what_does_not_belong_there_is_refused(void **state) {
  (void)state;
  static const struct {
    uint32_t offset, bytes, kind, pad;
    size_t size;
  } bad[] = {{0, 16, 0, 0, 32},
             {8, 16, 2, 0, 32},
             {0, 24, 2, 0, 48},
             {0, 128, 3, 0, 16 + 64},
             {64, 128, 3, 0, 16 + 128},
             {0, 16, 9, 0, 32},
             {0, 24, 4, 0, 48},
             {8, 16, 4, 0, 32},
             {0, 0, 2, 0, 16},
             {UINT32_MAX - 15, 16, 2, 0, 32},
             {0, UINT32_MAX - 15, 2, 0, 32},
             {0, 16, 2, 0, 8}};
  struct device_ep_options options = options_of(4, 256, CUDA_BF16, CUDA_COMBINE_BF16);
  struct plan plan = {0};
  _Atomic bool stop = false;
  struct side side;
  static _Alignas(16) char bytes[256];
  char why[DEVICE_WHY];
  cuda_layout_init(&plan.layout, &plan.forms, TOKENS, 256, 4, EXPERTS, CUDA_BF16, CUDA_COMBINE_BF16);
  open_side(&side, &plan, &options, 0, &stop);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    memcpy(bytes, &bad[i], 16);
    assert_int_equal(cuda_relay_deliver(side.relay, bytes, bad[i].size, NULL, why), WEFT_ERR_PROTOCOL);
  }
  for (size_t i = 0; i < plan.layout.area; i++)
    assert_int_equal(side.in[i], i < sizeof(struct cuda_area_head) ? 0 : (char)0xFF);
  // Rows and tokens beyond what there is are no answers to wait for.
  const uint32_t run[] = {(uint32_t)(plan_slot(&plan, 0) + plan.layout.routing), CUDA_LINE, 3, 0};
  memcpy(bytes, run, sizeof run);
  memset(bytes + 16, 0xFF, CUDA_LINE);
  assert_int_equal(cuda_relay_deliver(side.relay, bytes, 16 + CUDA_LINE, NULL, why), 0);
  cuda_relay_collect(side.relay, bytes, sizeof bytes, NULL, NULL);
  close_side(&side);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_taken_before_it_has_come),
      cmocka_unit_test(that_a_rank_waits_or_awaits_is_carried),
      cmocka_unit_test(what_does_not_belong_there_is_refused),
      cmocka_unit_test(all_arrives_and_nothing_before_its_flag),
      cmocka_unit_test(operations_go_on_beyond_32_bits),
  };
  return cmocka_run_group_tests_name("cuda_relay", tests, NULL, NULL);
}
