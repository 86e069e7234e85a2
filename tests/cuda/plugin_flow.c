// Groups for throughput in the host side of the CUDA plug-in: their memory, what is launched and in which order, what
// is refused, routes, and the results of operations. The test uses a CUDA made of host memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/support/plugin_case.h"

enum { TOKENS = 5000, WINDOW = 1 << 20, ROWS = 40 };
_Alignas(16) static char x[64], more[64];

static struct device_ep_options wide(void) {
  struct device_ep_options options = usual();
  options.throughput = true;
  options.max_tokens = TOKENS;
  options.window_bytes = WINDOW;
  return options;
}

static void open_wide(const struct device_ep_options *options) {
  cuda_ep_close(ep);
  ep = NULL;
  assert_int_equal(cuda_ep_open(device, options, &ep, why), 0);
}

static struct device_flow_dispatch good(void) {
  return (struct device_flow_dispatch){.d = {.halves = DEVICE_SEND | DEVICE_RECV,
                                             .kind = 1,
                                             .x = x,
                                             .topk_idx = x,
                                             .topk_weights = (float *)x,
                                             .num_tokens = 3,
                                             .rank_major = true,
                                             .rows = ROWS,
                                             .out = more,
                                             .out_scales = more,
                                             .counts = (int32_t *)more},
                                       .alignment = 1};
}

// A dispatch in the second place of a group that is open for it.
static struct cuda_open_op *dispatch_second(void) {
  struct device_ep_options options = wide();
  open_wide(&options);
  struct device_flow_dispatch f = good();
  f.place = 1;
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  return &ep->streams.open_ops[1];
}

static struct device_flow_combine good_combine(void) {
  return (struct device_flow_combine){.c = {.halves = DEVICE_SEND | DEVICE_RECV,
                                            .rank_major = true,
                                            .y = x,
                                            .out = more,
                                            .num_tokens = 3,
                                            .topk_idx = x,
                                            .topk_weights = (float *)x}};
}

static void a_window_is_no_larger_than_was_said(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  for (uint32_t tokens = 1; tokens <= 32768; tokens = tokens * 3 + 1) {
    options.max_tokens = tokens;
    size_t bytes = cuda_ep_area_bytes(&options, why);
    assert_in_range(bytes, 1, WINDOW);
    struct cuda_flow flow;
    uint64_t offset;
    cuda_flow_of(&options, &flow, &offset);
    assert_int_equal(offset + flow.bytes, bytes);
    assert_true(offset >= ep->layout.area || offset % 1024 == 0);
  }
  options.max_tokens = 32769;
  assert_int_equal(cuda_ep_area_bytes(&options, why), 0);
  options = wide();
  options.window_bytes = 300000;
  why[0] = '\0';
  assert_int_equal(cuda_ep_area_bytes(&options, why), 0);
  assert_non_null(strstr(why, "window_bytes is 300000"));
  // What it names is enough.
  options.window_bytes = strtoull(strstr(why, "take ") + 5, NULL, 10);
  assert_int_equal(cuda_ep_area_bytes(&options, why), options.window_bytes);
  options.window_bytes--;
  assert_int_equal(cuda_ep_area_bytes(&options, why), 0);
}

static void an_engine_has_room_for_two_operations(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  open_wide(&options);
  assert_int_equal(ep->layout.max_tokens, 0); // control brings no rows
  const struct cuda_streams *s = &ep->streams;
  for (int i = 0; i < EP_DEPTH; i++) {
    const struct cuda_route *there = s->open_ops[i].routing.route, *here = &s->open_ops[i].routing.arrays;
    assert_memory_equal(there, here, sizeof *there); // the fake's device memory is the host's
    assert_int_equal(here->max_rows, TOKENS * 8);
    memset(here->order, 1, (size_t)DEVICE_SEATS * CUDA_CHANNELS * s->flow.list * sizeof *here->order);
    memset(here->weight, 1, (size_t)here->max_rows * here->topk * sizeof *here->weight);
    memset(here->ways, 1, (size_t)TOKENS * here->topk * sizeof *here->ways);
  }
  assert_ptr_not_equal(s->open_ops[0].op, s->open_ops[1].op);
  options.max_rows = 100;
  open_wide(&options);
  assert_int_equal(ep->streams.open_ops[1].routing.arrays.max_rows, 100);
}

static void heads_of_streams_are_zeros_at_first(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  open_wide(&options);
  size_t bytes = cuda_ep_area_bytes(&options, why), head = sizeof(struct cuda_flow_head);
  char *memory = malloc(bytes);
  memset(memory, 0x55, bytes);
  const struct device_window window = {.memory = memory, .size = bytes};
  assert_int_equal(cuda_flow_clear(ep, &window, why), 0);
  for (size_t i = 0; i < bytes; i++) {
    bool is_head = i >= ep->streams.offset && i < ep->streams.offset + head;
    assert_int_equal(memory[i], is_head ? 0 : 0x55);
  }
  free(memory);
  // And so is the window to oneself.
  const char *own = ep->area + ep->streams.offset;
  for (size_t i = 0; i < head; i++)
    assert_int_equal(own[i], 0);
}

static void a_dispatch_is_planned_agreed_on_and_moved(void **state) {
  (void)state;
  const struct cuda_open_op *open = dispatch_second();
  assert_string_equal(fake.order, "pcr");
  assert_int_equal(fake.blocks, 24);
  assert_true(fake.early);
  assert_ptr_equal(fake.plan.route, open->routing.route);
  assert_ptr_equal(fake.control.route, open->routing.route);
  assert_ptr_equal(fake.rows.route, open->routing.route);
  assert_ptr_equal(fake.control.op, open->op);
  assert_ptr_equal(fake.rows.op, open->op);
  assert_int_equal(fake.plan.num_tokens, 3);
  assert_int_equal(fake.control.base.d.num_tokens, 0);
  assert_false(fake.control.keeps);
  assert_int_equal(fake.rows.layout, WEFT_EP_RANK_MAJOR);
  assert_int_equal(fake.rows.shape.casts, CUDA_FP8);
  assert_int_equal(fake.rows.shape.in_bytes, 2 * 256);
  assert_int_equal(fake.rows.shape.value_bytes, 256);
  assert_int_equal(fake.rows.shape.scale_words, 2);
  struct device_flow_combine c = good_combine();
  c.place = 1;
  c.c.processors = 9;
  c.rows = ROWS;
  assert_int_equal(cuda_flow_combine(ep, &c, FAKE_STREAM, why), 0);
  assert_string_equal(fake.order, "pcrae");
  assert_ptr_equal(fake.answers.op, open->op);
  assert_ptr_equal(fake.end.missing, fake.answers.missing);
  assert_int_equal(fake.answers.rows, ROWS);
  assert_true(fake.answers.rank_major);
  struct device_flow_dispatch barrier = {.d = {.halves = DEVICE_SEND | DEVICE_RECV, .kind = 2}};
  assert_int_equal(cuda_flow_dispatch(ep, &barrier, FAKE_STREAM, why), 0);
  assert_int_equal(cuda_ep_finish(ep, FAKE_STREAM, why), 0);
  assert_string_equal(fake.order, "pcraec");
  assert_true(fake.control.no_rows);
}

// Each launches its part, with what the other has said.
static void halves_launch_their_part(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  options.max_tokens = 300; // a window has room for the rows of so many
  open_wide(&options);
  struct device_flow_dispatch f = good();
  f.place = 1;
  f.d.halves = DEVICE_SEND;
  f.d.out = NULL;
  f.d.counts = NULL;
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_string_equal(fake.order, "pcr");
  assert_int_equal(fake.control.base.d.halves, DEVICE_SEND);
  assert_int_equal(fake.rows.halves, DEVICE_SEND);
  f = good();
  f.place = 1;
  f.d.halves = DEVICE_RECV;
  f.d.status = (struct weft_ep_recv_status *)more;
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_string_equal(fake.order, "pcrcrt");
  assert_int_equal(fake.control.base.d.halves, DEVICE_RECV);
  assert_int_equal(fake.rows.halves, DEVICE_RECV);
  assert_ptr_equal(fake.rows.x, x); // its own rows come now
  assert_int_equal(fake.rows.shape.casts, CUDA_FP8);
  assert_ptr_equal(fake.rows.op, ep->streams.open_ops[1].op);
  memset(fake.order, 0, sizeof fake.order);
  struct device_flow_combine c = good_combine();
  for (uint32_t halves = DEVICE_SEND; halves <= DEVICE_RECV; halves++) {
    c.c.halves = halves;
    c.c.keeps = halves == DEVICE_RECV;
    assert_int_equal(cuda_flow_combine(ep, &c, FAKE_STREAM, why), 0);
    assert_int_equal(fake.answers.halves, halves);
    assert_int_equal(fake.end.halves, halves);
    assert_int_equal(fake.end.keeps, halves == DEVICE_RECV);
    assert_true(fake.end.rank_major);
  }
  assert_string_equal(fake.order, "aeae");
}

// What they say of the window is enough.
static void halves_that_do_not_fit_are_refused(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  open_wide(&options);
  struct device_flow_dispatch f = good();
  struct device_flow_combine c = good_combine();
  uint32_t most = cuda_ring_tokens(&ep->streams.flow.rows);
  assert_in_range(most, 3, TOKENS - 1);
  f.d.halves = c.c.halves = DEVICE_SEND;
  f.d.num_tokens = most;
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  memset(fake.order, 0, sizeof fake.order);
  f.d.num_tokens = TOKENS;
  assert_refused(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), WEFT_ERR_LIMIT, "call weft_ep_dispatch for both halves");
  uint64_t rows = strtoull(strstr(why, "window_bytes of ") + 16, NULL, 10);
  assert_refused(cuda_flow_combine(ep, &c, FAKE_STREAM, why), WEFT_ERR_LIMIT, "call weft_ep_combine for both halves");
  uint64_t answers = strtoull(strstr(why, "window_bytes of ") + 16, NULL, 10);
  assert_string_equal(fake.order, "");
  c.c.halves = DEVICE_RECV;
  assert_int_equal(cuda_flow_combine(ep, &c, FAKE_STREAM, why), 0);
  c.c.halves = DEVICE_SEND;
  options.window_bytes = rows > answers ? rows : answers;
  open_wide(&options);
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_int_equal(cuda_flow_combine(ep, &c, FAKE_STREAM, why), 0);
  options.window_bytes -= 256;
  open_wide(&options);
  int rc = cuda_flow_dispatch(ep, &f, FAKE_STREAM, why);
  assert_true((rc == 0) != (rows >= answers));
}

// As the group was opened, or as the call says.
static void answers_travel_as_the_call_says(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  for (int type = CUDA_COMBINE_BF16; type <= CUDA_COMBINE_LOGFMT10; type++) {
    options.combine_dtype = type;
    open_wide(&options);
    for (int says = 0; says <= CUDA_COMBINE_LOGFMT10; says++) {
      struct device_flow_combine c = good_combine();
      c.c.dtype = says;
      assert_int_equal(cuda_flow_combine(ep, &c, FAKE_STREAM, why), 0);
      assert_int_equal(fake.answers.coded, (says ? says : type) == CUDA_COMBINE_LOGFMT10);
    }
  }
}

static void a_call_says_its_own_form(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  open_wide(&options);
  struct device_flow_dispatch f = good();
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  uint32_t form = fake.control.form;
  f.d.topk = 1;
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_int_not_equal(fake.control.form, form);
  assert_int_equal(fake.rows.topk, 1);
  f.d.topk = 0;
  f.d.dtype = WEFT_EP_OPAQUE;
  f.row_bytes = 160;
  f.scale_bytes = 12;
  f.d.scales = x;
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_int_equal(fake.rows.shape.value_bytes, 160);
  assert_int_equal(fake.rows.shape.scale_words, 3);
  assert_int_equal(fake.rows.shape.casts, 0);
  uint32_t opaque = fake.control.form;
  f.scale_bytes = 16;
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_int_not_equal(fake.control.form, opaque);
  f.row_bytes = 144;
  f.scale_bytes = 28; // as many bytes together as the first
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_int_not_equal(fake.control.form, opaque);
  f = good();
  f.packed = true;
  f.alignment = 128;
  f.zero_padding = true;
  f.d.rank_major = false;
  f.d.status = (struct weft_ep_recv_status *)more;
  f.slot = (int32_t *)more;
  fake.order[0] = '\0';
  memset(fake.order, 0, sizeof fake.order);
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_string_equal(fake.order, "pcrt"); // the status comes behind the rows
  assert_int_equal(fake.rows.layout, WEFT_EP_PACKED);
  assert_int_equal(fake.control.alignment, 128);
  assert_ptr_equal(fake.rows.slot, more);
}

static void what_kernels_would_stumble_over_is_refused(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  open_wide(&options);
#define REFUSED(change, code, word)                                                                                    \
  do {                                                                                                                 \
    struct device_flow_dispatch f = good();                                                                            \
    change;                                                                                                            \
    assert_refused(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), code, word);                                          \
  } while (0)
  REFUSED(f.d.num_tokens = TOKENS + 1, WEFT_ERR_INVALID, "more than max_tokens");
  REFUSED(f.d.x = x + 1, WEFT_ERR_INVALID, "x (");
  REFUSED(f.d.topk_idx = FAKE_OTHER_MEMORY, WEFT_ERR_INVALID, "topk_idx");
  REFUSED(f.slot = (int32_t *)fake_host_memory, WEFT_ERR_INVALID, "recv.slot");
  REFUSED(f.expert_end = (int32_t *)(more + 2), WEFT_ERR_INVALID, "recv.expert_end");
  struct device_flow_combine c = good_combine();
  c.bias[1] = more + 2;
  assert_refused(cuda_flow_combine(ep, &c, FAKE_STREAM, why), WEFT_ERR_INVALID, "bias[1]");
  c = good_combine();
  c.out_weights = (float *)fake_host_memory;
  assert_refused(cuda_flow_combine(ep, &c, FAKE_STREAM, why), WEFT_ERR_INVALID, "out_weights");
  assert_refused(cuda_flow_combine(ep, &c, FAKE_OTHER_STREAM, why), WEFT_ERR_INVALID, "stream");
  assert_string_equal(fake.order, "");
}

// The search is a kernel, which the fake leaves out: here are its arguments, and what follows from its result.
static void selections_are_compared_with_those_of_a_route(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  open_wide(&options);
  const struct device_route_options wanted = {.max_tokens = 10, .max_rows = 50, .topk = 2, .alignment = 8};
  struct device_route *route = NULL;
  int64_t experts[6] = {4, 1, 0, 2, 3, -1};
  int32_t narrow[6] = {4, 1, 0, 7, 3, -1};
  assert_int_equal(cuda_route_create(device, &options, &wanted, &route, why), 0);
  assert_int_equal(cuda_route_plan(ep, route, experts, false, 3, 0, FAKE_STREAM, why), 0);
  memcpy(fake.lists.kept_idx, experts, sizeof experts); // as the kernel does
  memset(fake.order, 0, sizeof fake.order);
  struct device_compare compare = {.topk_idx = narrow, .narrow = true, .num_tokens = 3, .topk = 2};
  struct device_difference is = {.differs = true};
  assert_int_equal(cuda_route_compare(ep, route, &compare, FAKE_STREAM, why), 0);
  assert_string_equal(fake.order, "=");
  assert_false(fake.early);
  assert_ptr_equal(fake.compare.route, route->routing.route);
  assert_ptr_equal(fake.compare.given, narrow);
  assert_ptr_equal(fake.compare.kept, fake.lists.kept_idx);
  assert_ptr_equal(fake.lists.topk_idx, experts);
  assert_true(fake.compare.narrow);
  assert_false(fake.compare.kept_narrow);
  assert_int_equal(cuda_route_difference(route, &compare, &is, why), 0);
  assert_false(is.differs);
  *fake.compare.first = 3;
  assert_int_equal(cuda_route_difference(route, &compare, &is, why), 0);
  assert_true(is.differs);
  assert_int_equal(is.at, 3);
  assert_int_equal(is.given, 7);
  assert_int_equal(is.kept, 2);
  compare.topk_idx = NULL;
  assert_refused(cuda_route_compare(ep, route, &compare, FAKE_STREAM, why), WEFT_ERR_INVALID, "topk_idx32 is NULL");
  compare.topk_idx = fake_host_memory;
  assert_refused(cuda_route_compare(ep, route, &compare, FAKE_STREAM, why), WEFT_ERR_INVALID, "memory of the host");
  assert_refused(cuda_route_compare(ep, route, &compare, FAKE_OTHER_STREAM, why), WEFT_ERR_INVALID, "the stream");
  cuda_route_free(route);
}

static void a_kept_route_needs_no_plan(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  open_wide(&options);
  const struct device_route_options wanted = {.max_tokens = 10, .max_rows = 50, .topk = 2, .alignment = 8};
  struct device_route *route = NULL;
  assert_int_equal(cuda_route_create(device, &options, &wanted, &route, why), 0);
  assert_int_equal(route->routing.arrays.max_rows, 50);
  ep->ranks = 4; // of a view, by which processors are shared out
  struct device_flow_dispatch f = good();
  int64_t experts[6] = {4, 1, 0, 2, 3, -1};
  float weights[6] = {1, 2, 3, 4, 5, 6};
  f.route = route;
  f.d.topk_idx = experts;
  f.d.topk_weights = weights;
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_string_equal(fake.order, "pcrl");
  assert_ptr_equal(fake.plan.route, route->routing.route);
  assert_ptr_equal(fake.control.filled, route->filled);
  assert_int_equal(fake.control.filled_alignment, 8);
  assert_true(fake.rows.overlaps);
  assert_int_equal(fake.rows.max_rows, TOKENS * 8); // the group's, whose workspace it is
  assert_ptr_equal(fake.lists.notify.filled, route->filled);
  assert_ptr_equal(fake.lists.notify.op, fake.rows.op);
  assert_int_equal(fake.lists.halves, DEVICE_SEND | DEVICE_RECV);
  assert_int_equal(fake.lists.max_rows, 50);
  const void *topk_idx = NULL;
  const float *kept = NULL;
  cuda_route_selections(route, &topk_idx, &kept);
  assert_ptr_equal(fake.lists.kept_idx, topk_idx);
  assert_ptr_equal(fake.lists.kept_weights, kept);
  assert_ptr_equal(fake.lists.topk_weights, weights);
  const struct cuda_blank *counted = &fake.plan.blank[0], *pairs = &fake.plan.blank[1];
  assert_ptr_equal(counted->memory, route->lists.tokens_per_rank);
  assert_ptr_equal((char *)counted->memory + counted->bytes, route->lists.in_rank);
  assert_int_equal(counted->word, 0);
  assert_ptr_equal(pairs->memory, route->routing.arrays.token);
  assert_ptr_equal((char *)pairs->memory + pairs->bytes, route->routing.arrays.weight);
  assert_int_equal(pairs->word, 0xFFFFFFFF); // of no pair
  assert_int_equal(counted->bytes % 16 + pairs->bytes % 16, 0);
  struct device_route_counts counts;
  assert_refused(cuda_route_counts(route, &counts, NULL, 0, why), WEFT_ERR_NOT_FOUND, "no dispatch has filled");
  *route->filled = (struct cuda_filled){
      .op = 8, .epoch = 3, .num_rows = 12, .packed_rows = 24, .num_ranks = 2, .lost = 2, .totals = {3, 2, 0, 8}};
  int32_t rows[4];
  assert_int_equal(cuda_route_counts(route, &counts, rows, 4, why), 0);
  assert_int_equal(counts.op, 7);
  assert_int_equal(counts.num_lost, 1);
  const int32_t expected[4] = {3, 2, 0, 8};
  assert_memory_equal(rows, expected, sizeof expected);
  memset(fake.order, 0, sizeof fake.order);
  f.keeps = true;
  f.d.topk_idx = NULL;
  f.d.topk_weights = NULL;
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_string_equal(fake.order, "cr");
  assert_int_equal(fake.rows.ranks, 4);
  assert_true(fake.rows.kept);
  assert_true(fake.control.keeps);
  struct device_flow_combine c = good_combine();
  c.route = route;
  c.begins = true;
  assert_int_equal(cuda_flow_combine(ep, &c, FAKE_STREAM, why), 0);
  assert_string_equal(fake.order, "crcae");
  assert_true(fake.control.no_rows);
  assert_ptr_equal(fake.answers.route.ways, route->routing.arrays.ways);
  assert_int_equal(fake.answers.ranks, 4);
  assert_int_equal(cuda_route_plan(ep, route, experts, false, 3, 0, FAKE_STREAM, why), 0);
  assert_string_equal(fake.order, "crcaepl");
  assert_int_equal(fake.lists.halves, DEVICE_SEND);
  assert_null(fake.lists.notify.op);
  assert_null(fake.plan.blank[1].memory);
  assert_int_equal(route->filled->op, 0);
  cuda_ep_close(ep); // a route outlives it
  ep = NULL;
  cuda_route_free(route);
  cuda_route_free(NULL);
  fake.full = true;
  assert_refused(cuda_route_create(device, &options, &wanted, &route, why), WEFT_ERR_NOMEM, "device 0");
}

// A plan makes blank what it can; a half that receives has none.
static void halves_fill_a_route(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  open_wide(&options);
  const struct device_route_options wanted = {.max_tokens = 10, .max_rows = 50, .topk = 2};
  struct device_route *route = NULL;
  assert_int_equal(cuda_route_create(device, &options, &wanted, &route, why), 0);
  struct device_flow_dispatch f = good();
  f.route = route;
  f.d.halves = DEVICE_SEND;
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_string_equal(fake.order, "pcrl");
  assert_int_equal(fake.lists.halves, DEVICE_SEND);
  assert_null(fake.plan.blank[1].memory);
  int32_t *place = route->routing.arrays.place;
  memset(place, 0, 100 * sizeof *place);
  f.d.halves = DEVICE_RECV;
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_string_equal(fake.order, "pcrlcrl");
  assert_int_equal(fake.lists.halves, DEVICE_RECV);
  assert_false(fake.rows.overlaps); // what makes it blank stands between
  assert_int_equal(place[99], -1);
  cuda_route_free(route);
}

// The device counts what has begun there, and the host cannot take it back.
static void a_call_that_was_launched_in_part_is_the_last(void **state) {
  (void)state;
  static const char *const launches = "pcrtae";
  struct device_ep_options options = wide();
  for (int captured = 0; captured < 2; captured++)
    for (const char *letter = launches; *letter; letter++) {
      open_wide(&options);
      struct device_flow_dispatch f = good();
      struct device_flow_combine c = good_combine();
      f.d.status = (struct weft_ep_recv_status *)more;
      bool combines = *letter == 'a' || *letter == 'e', first = *letter == 'p' || *letter == 'a';
      fake.fails = *letter;
      fake.capturing = captured;
      int rc = combines ? cuda_flow_combine(ep, &c, FAKE_STREAM, why) : cuda_flow_dispatch(ep, &f, FAKE_STREAM, why);
      fake.capturing = false;
      assert_int_equal(rc, WEFT_ERR_SYSTEM);
      assert_int_equal(!!strstr(why, "give it up"), captured && !first);
      if (first || captured) { // nothing of it runs
        assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
        continue;
      }
      memset(fake.order, 0, sizeof fake.order);
      for (int again = 0; again < 2; again++) {
        assert_refused(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), WEFT_ERR_SYSTEM, "close this rank: cannot");
        assert_refused(cuda_flow_combine(ep, &c, FAKE_STREAM, why), WEFT_ERR_SYSTEM, "a part of a call");
        assert_refused(cuda_ep_finish(ep, FAKE_STREAM, why), WEFT_ERR_SYSTEM, "a part of a call");
      }
      assert_string_equal(fake.order, "");
    }
}

static void a_route_that_is_half_made_is_not_gone_by(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  const struct device_route_options wanted = {.max_tokens = 10, .max_rows = 50, .topk = 2};
  struct device_route *route = NULL;
  struct device_route_counts counts;
  int64_t experts[6] = {4, 1, 0, 2, 3, -1};
  open_wide(&options);
  assert_int_equal(cuda_route_create(device, &options, &wanted, &route, why), 0);
  struct device_flow_dispatch f = good(), kept = good();
  struct device_flow_combine c = good_combine();
  const struct device_compare compare = {.topk_idx = experts, .num_tokens = 3, .topk = 2};
  f.route = kept.route = c.route = route;
  kept.keeps = c.begins = true;
  for (const char *letter = "pl"; *letter; letter++) {
    assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
    route->filled->op = 8;
    assert_int_equal(cuda_route_counts(route, &counts, NULL, 0, why), 0);
    // What is refused changes nothing.
    assert_refused(cuda_route_plan(ep, route, fake_host_memory, false, 3, 0, FAKE_STREAM, why), WEFT_ERR_INVALID,
                   "topk_idx");
    assert_int_equal(cuda_flow_dispatch(ep, &kept, FAKE_STREAM, why), 0);
    fake.fails = *letter;
    assert_refused(cuda_route_plan(ep, route, experts, false, 3, 0, FAKE_STREAM, why), WEFT_ERR_SYSTEM, "cannot");
    memset(fake.order, 0, sizeof fake.order);
    assert_refused(cuda_flow_dispatch(ep, &kept, FAKE_STREAM, why), WEFT_ERR_INVALID, "the route is incomplete");
    assert_refused(cuda_flow_combine(ep, &c, FAKE_STREAM, why), WEFT_ERR_INVALID, "the route is incomplete");
    assert_refused(cuda_route_compare(ep, route, &compare, FAKE_STREAM, why), WEFT_ERR_INVALID,
                   "the route is incomplete");
    assert_refused(cuda_route_counts(route, &counts, NULL, 0, why), WEFT_ERR_INVALID, "the route is incomplete");
    assert_string_equal(fake.order, "");
    assert_int_equal(cuda_route_plan(ep, route, experts, false, 3, 0, FAKE_STREAM, why), 0);
    assert_int_equal(cuda_route_compare(ep, route, &compare, FAKE_STREAM, why), 0);
  }
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  route->filled->op = 8;
  fake.fails = 'c';
  assert_refused(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), WEFT_ERR_SYSTEM, "cannot launch control");
  assert_refused(cuda_route_counts(route, &counts, NULL, 0, why), WEFT_ERR_INVALID, "the route is incomplete");
  cuda_route_free(route);
}

static void what_rows_did_is_in_the_record(void **state) {
  (void)state;
  struct cuda_open_op *open = dispatch_second();
  struct cuda_flow_op *op = open->op;
  struct device_record record;
  // Seats 5 and 2 are members 0 and 1; seat 5 was lost in mid-flow.
  *op = (struct cuda_flow_op){.op = 9, .count = 2, .seats = 1 << 5 | 1 << 2, .lost = 1 << 5, .by_rank = {5, 2}};
  op->member[2] = 1;
  ep->state->record[9 % CUDA_RECORDS] = (struct device_record){.op = 9, .kind = 1, .num_ranks = 2};
  assert_int_equal(cuda_ep_record(ep, 9, &record, why), 0);
  assert_int_equal(record.lost, 1);
  uint64_t missing[2000];
  for (uint32_t t = 0; t < 2000; t++) {
    open->routing.arrays.seats[t] = t % 2 ? 1 << 5 : 1 << 5 | 1 << 2;
    open->missing[t] = t % 3 ? 0 : 1 << 2;
  }
  assert_int_equal(cuda_ep_missing(ep, 9, missing, 2000, why), 0);
  for (uint32_t t = 0; t < 2000; t++) {
    assert_int_equal(missing[t] & 1, 0);
    assert_int_equal(missing[t] >> 1 & 1, t % 2 == 1 || t % 3 == 0);
  }
  // Its route may have more room than the group, or less.
  op->pairs = op->max_rows = TOKENS * 8 + 1;
  assert_int_equal(cuda_ep_record(ep, 9, &record, why), 0);
  op->max_rows = 50;
  assert_refused(cuda_ep_record(ep, 9, &record, why), WEFT_ERR_ROOM, "40001 tokens arrived, more than max_rows, 50");
  assert_int_equal(record.num_ranks, 2);
  assert_refused(cuda_ep_missing(ep, 7, missing, 1, why), WEFT_ERR_NOT_FOUND, "too old");
}

static void few_processors_take_few(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  options.processors = 10;
  open_wide(&options);
  struct device_flow_dispatch f = good();
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_int_equal(fake.blocks, 10);
  assert_false(fake.early); // other ranks may share the device
  f.d.processors = 8;
  assert_int_equal(cuda_flow_dispatch(ep, &f, FAKE_STREAM, why), 0);
  assert_int_equal(fake.blocks, 8);
}

// Fewer ranks are a view's most where the plan of more has no room.
static void a_view_has_as_many_ranks_as_a_plan_has_room_for(void **state) {
  (void)state;
  struct device_ep_options options = wide();
  open_wide(&options);
  uint32_t most = ep->members;
  fake.plan_memory = (FAKE_SHARED - CUDA_DISPATCH_FIXED) / options.experts_per_rank / 2;
  open_wide(&options);
  assert_true(most > 2);
  assert_int_equal(ep->members, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_view_has_as_many_ranks_as_a_plan_has_room_for),
      TEST(a_window_is_no_larger_than_was_said),
      TEST(an_engine_has_room_for_two_operations),
      TEST(heads_of_streams_are_zeros_at_first),
      TEST(a_dispatch_is_planned_agreed_on_and_moved),
      TEST(halves_launch_their_part),
      TEST(halves_that_do_not_fit_are_refused),
      TEST(answers_travel_as_the_call_says),
      TEST(a_call_says_its_own_form),
      TEST(what_kernels_would_stumble_over_is_refused),
      TEST(a_kept_route_needs_no_plan),
      TEST(halves_fill_a_route),
      TEST(selections_are_compared_with_those_of_a_route),
      TEST(a_call_that_was_launched_in_part_is_the_last),
      TEST(a_route_that_is_half_made_is_not_gone_by),
      TEST(what_rows_did_is_in_the_record),
      TEST(few_processors_take_few),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
