// The host side of the CUDA plug-in on a CUDA made of host memory: what it writes to the device's state, and what it
// refuses.
#include "cuda/support/plugin_case.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { AREA_A = 0x10000, AREA_B = 0x20000 };

// A view of ranks 0, RANK and 5; rank 5 has no link.
static int publish_from(uint64_t oldest, uint64_t epoch) {
  const struct device_member members[] = {
      {0, 7, (void *)AREA_A, (void *)AREA_B}, {RANK, 3, NULL, NULL}, {5, DEVICE_NO_SEAT, NULL, NULL}};
  const struct device_view view = {epoch, 3, members, oldest};
  return cuda_ep_publish(ep, &view, why);
}

static int publish(uint64_t epoch) {
  return publish_from(0, epoch);
}

static const struct cuda_view *published(uint64_t epoch) {
  for (int i = 0; i < CUDA_PUBLISHED; i++)
    if (ep->state->published[i].epoch == epoch)
      return &ep->state->published[i];
  return NULL;
}

static void activate(uint64_t epoch) {
  struct device_report *report = &ep->host->report;
  report->activation[report->activations % DEVICE_ACTIVATIONS].epoch = epoch;
  report->activations++;
}

static void a_new_engine_begins_with_nothing_but_its_pointers(void **state) {
  (void)state;
  const struct cuda_state *s = ep->state;
  assert_int_equal(s->control.timeout_ns, 5000);
  assert_int_equal(s->control.operations_per_step, 3);
  assert_ptr_equal(s->report, &ep->host->report);
  assert_int_equal(s->counters.sent, 0);
  for (int i = 0; i < CUDA_LIVE; i++) {
    const struct cuda_handle *h = &s->handle[i];
    assert_true((char *)h->place >= (char *)ep->arrays);
    assert_int_equal((char *)h->weight - (char *)h->place, 8 * 16 * 2 * 4);
    assert_int_equal(h->rows[CUDA_MAX_MEMBERS - 1], 0);
    assert_int_equal(h->place[8 * 16 * 2 - 1], 0);
    assert_int_equal(h->missing[15], 0);
    h->unsent[15] = 0; // the last of them is ours: a sanitizer sees
  }
  assert_int_equal(cuda_ep_memory(ep), sizeof *s + ep->layout.area + 4 * (2 * 1024 + 512 + 3 * 128));
  assert_empty(ep->area, ep->layout.area);
}

static void a_published_view_has_ones_own_area_and_no_areas_without_a_link(void **state) {
  (void)state;
  assert_int_equal(publish(4), 0);
  const struct cuda_view *view = published(4);
  assert_non_null(view);
  assert_int_equal(view->count, 3);
  assert_int_equal(view->self, 1);
  assert_ptr_equal(view->members[0].in, (void *)AREA_A);
  assert_ptr_equal(view->members[0].out, (void *)AREA_B);
  assert_int_equal(view->members[0].seat, 7);
  assert_ptr_equal(view->members[1].in, ep->area);
  assert_ptr_equal(view->members[1].out, ep->area);
  assert_null(view->members[2].in);
  assert_int_equal(view->members[2].seat, DEVICE_NO_SEAT);
}

static void how_far_the_kernels_are_is_copied(void **state) {
  (void)state;
  struct device_progress progress;
  ep->state->progress = (struct device_progress){.begun = 9, .ended = 7, .left = 6, .received = 8};
  assert_int_equal(cuda_ep_progress(ep, &progress, why), 0);
  assert_int_equal(progress.begun, 9);
  assert_int_equal(progress.ended, 7);
  assert_int_equal(progress.left, 6);
  assert_int_equal(progress.received, 8);
}

static int found_before_told;

static void look_for_view_4(void) {
  found_before_told += published(4) && !ep->state->control.strict;
}

static void a_rank_that_finds_a_view_knows_that_a_link_is_slow(void **state) {
  (void)state;
  found_before_told = 0;
  device->strict = true;
  fake.copied = look_for_view_4;
  int rc = publish(4);
  fake.copied = NULL;
  device->strict = false;
  assert_int_equal(rc, 0);
  assert_int_equal(found_before_told, 0);
  assert_int_equal(ep->state->control.strict, 1);
  assert_int_equal(ep->state->control.timeout_ns, 5000); // nothing beside it
  assert_int_equal(ep->state->control.operations_per_step, 3);
}

static void views_that_kernels_may_look_for_are_kept(void **state) {
  (void)state;
  for (uint64_t epoch = 1; epoch <= CUDA_PUBLISHED; epoch++)
    assert_int_equal(publish(epoch), 0);
  assert_refused(publish(9), WEFT_ERR_BUSY, "wait to take effect");
  activate(1); // the active one itself is kept
  assert_refused(publish(9), WEFT_ERR_BUSY, "wait to take effect");
  activate(3);
  assert_int_equal(publish(9), 0);
  assert_null(published(1));
  assert_non_null(published(2));
  assert_int_equal(publish(10), 0);
  assert_refused(publish(11), WEFT_ERR_BUSY, "wait to take effect");
  for (uint64_t epoch = 3; epoch <= 10; epoch++)
    assert_non_null(published(epoch));
  for (uint64_t epoch = 11; epoch < 60; epoch++) { // past the ring of activations
    activate(epoch - 1);
    assert_int_equal(publish(epoch), 0);
  }
  assert_non_null(published(59));
}

static void views_before_the_first_operation_are_not_kept(void **state) {
  (void)state;
  for (uint64_t epoch = 1; epoch <= CUDA_PUBLISHED; epoch++)
    assert_int_equal(publish(epoch), 0);
  assert_refused(publish_from(1, 9), WEFT_ERR_BUSY, "wait to take effect");
  for (uint64_t epoch = 9; epoch <= 11; epoch++)
    assert_int_equal(publish_from(4, epoch), 0);
  assert_null(published(3));
  assert_non_null(published(4));
  assert_refused(publish_from(4, 12), WEFT_ERR_BUSY, "wait to take effect");
}

static void views_out_of_order_are_refused(void **state) {
  (void)state;
  assert_int_equal(publish(4), 0);
  assert_refused(publish(4), WEFT_ERR_INVALID, "ascending");
  assert_refused(publish(3), WEFT_ERR_INVALID, "ascending");
  const struct device_member wrong[] = {{1, 2, (void *)AREA_A, (void *)AREA_B}, {1, 3, (void *)AREA_A, (void *)AREA_B}};
  assert_refused(cuda_ep_publish(ep, &(struct device_view){5, 2, wrong, 0}, why), WEFT_ERR_INVALID, "rank 1");
  const struct device_member blind[] = {{1, 2, NULL, (void *)AREA_B}};
  assert_refused(cuda_ep_publish(ep, &(struct device_view){5, 1, blind, 0}, why), WEFT_ERR_INVALID, "without areas");
  const struct device_member lost[] = {{RANK, DEVICE_NO_SEAT, NULL, NULL}};
  assert_refused(cuda_ep_publish(ep, &(struct device_view){5, 1, lost, 0}, why), WEFT_ERR_INVALID, "seat 255");
  struct device_member many[9];
  for (int i = 0; i < 9; i++)
    many[i] = (struct device_member){i, (uint32_t)i, (void *)AREA_A, (void *)AREA_B};
  assert_refused(cuda_ep_publish(ep, &(struct device_view){5, 9, many, 0}, why), WEFT_ERR_LIMIT, "9 ranks");
  assert_int_equal(ep->ranks, 3); // of the view that was taken
}

static void control_words_keep_the_deadline(void **state) {
  (void)state;
  const struct device_control control = {.ready = 7, .mark = 8, .gone = 9, .masked = 10};
  assert_int_equal(cuda_ep_control(ep, &control, why), 0);
  const struct cuda_control *c = &ep->state->control;
  assert_int_equal(c->ready, 7);
  assert_int_equal(c->mark, 8);
  assert_int_equal(c->gone, 9);
  assert_int_equal(c->masked, 10);
  assert_int_equal(c->timeout_ns, 5000);
  assert_int_equal(ep->state->counters.sent, 0); // nothing beside it
  assert_int_equal(ep->state->arrived, 0);
}

static void a_seat_given_again_is_forgotten(void **state) {
  (void)state;
  ep->state->start_sent[6] = ep->state->start_sent[7] = 12;
  ep->host->report.lost[6] = ep->host->report.lost[7] = 1;
  assert_int_equal(cuda_ep_seat(ep, 6, why), 0);
  assert_int_equal(ep->state->start_sent[6], 0);
  assert_int_equal(ep->state->start_sent[7], 12);
  assert_int_equal(device_lost(&ep->host->report), 0x80);
  assert_refused(cuda_ep_seat(ep, DEVICE_SEATS, why), WEFT_ERR_INVALID, "seat 64 does not exist");
}

static void a_device_that_does_not_answer_is_no_endless_wait(void **state) {
  (void)state;
  fake.stuck = true;
  assert_refused(cuda_stream_wait(device, FAKE_STREAM, 3, why), WEFT_ERR_TIMEOUT, "3 ms");
  uint64_t ns;
  assert_refused(cuda_event_elapsed(device, NULL, NULL, &ns, why), WEFT_ERR_BUSY, "both events");
}

// Time passes in steps, so that a wait of many seconds ends at once.
static int64_t step_s;
int clock_gettime(clockid_t clock, struct timespec *now) {
  static int64_t passed_s;
  int rc = (int)syscall(SYS_clock_gettime, clock, now);
  passed_s += step_s;
  now->tv_sec += passed_s;
  return rc;
}

// The kernel that begins the rank may still run, and uses the engine's memory, when its call has given up.
static void a_close_waits_for_a_begin_that_takes_long(void **state) {
  (void)state;
  fake.stuck = true;
  step_s = 1;
  assert_refused(cuda_ep_begin(ep, NULL, 0, 0, 1, why), WEFT_ERR_TIMEOUT, "beginning");
  step_s = 0;
  fake.stuck_for = 5;
  cuda_ep_close(ep);
  ep = NULL;
  assert_int_equal(fake.freed_early, 0);
  assert_false(fake.stuck);
}

static void a_stream_that_is_captured_is_not_waited_for(void **state) {
  (void)state;
  char byte = 1, copy = 0;
  fake.capturing = true;
  assert_refused(cuda_stream_wait(device, FAKE_STREAM, 10, why), WEFT_ERR_INVALID, "captured");
  assert_refused(cuda_copy(device, &copy, &byte, 1, FAKE_STREAM, true, why), WEFT_ERR_INVALID, "captured");
  assert_int_equal(fake.waits_in_capture, 0);
  uint64_t capture = 0;
  assert_int_equal(cuda_stream_capture(FAKE_STREAM, &capture, why), 0);
  assert_int_equal(capture, 5);
  assert_int_equal(cuda_copy(device, &copy, &byte, 1, FAKE_STREAM, false, why), 0);
  assert_int_equal(copy, 1);
}

static void what_is_captured_runs_as_a_graph(void **state) {
  (void)state;
  void *graph = NULL;
  uint64_t capture = 0;
  assert_int_equal(cuda_graph_begin(device, FAKE_STREAM, why), 0);
  assert_int_equal(cuda_stream_capture(FAKE_STREAM, &capture, why), 0);
  assert_int_equal(capture, 5);
  assert_int_equal(cuda_graph_end(device, FAKE_STREAM, &graph, why), 0);
  assert_non_null(graph);
  assert_int_equal(cuda_graph_launch(device, graph, FAKE_STREAM, why), 0);
  assert_int_equal(cuda_graph_launch(device, graph, FAKE_STREAM, why), 0);
  assert_int_equal(fake.graphs, 2);
  cuda_graph_close(device, graph);
  cuda_graph_close(device, NULL);
  void *none = NULL;
  assert_int_equal(cuda_graph_begin(device, FAKE_STREAM, why), 0);
  fake.stuck = true; // what was captured is spoilt
  assert_int_not_equal(cuda_graph_end(device, FAKE_STREAM, &none, why), 0);
  assert_null(none);
  assert_false(fake.capturing);
}

static void links_to_peers_are_woken(void **state) {
  (void)state;
  const struct device_member seats[] = {{0, 0, (void *)AREA_A, (void *)AREA_B}, {1, 1, NULL, NULL}};
  assert_int_equal(cuda_ep_wake_links(ep, seats, 2, why), 0);
  assert_int_equal(fake.begin.count, 1);
  assert_ptr_equal(fake.begin.out[0], (void *)AREA_B);
  assert_int_equal(fake.begin.area, ep->layout.area);
}

static void a_first_operation_is_announced_or_not(void **state) {
  (void)state;
  const struct device_member seats[] = {{0, 0, (void *)AREA_A, NULL}, {1, 1, NULL, NULL}, {3, 2, (void *)AREA_B, NULL}};
  struct device_awaiting awaiting = {0};
  bool cancel = false;
  uint64_t op = 99, epoch = 99;
  fake.begins_until_found = 3;
  fake.found = (struct cuda_begin){.op = 40, .epoch = 6, .begun = 1};
  assert_int_equal(cuda_ep_await_begin(ep, seats, 3, &awaiting, 60000, &cancel, &op, &epoch, why), 0);
  assert_int_equal(fake.begins, 3);
  assert_int_equal(op, 40);
  assert_int_equal(epoch, 6);
  assert_int_equal(fake.begin.count, 2);
  assert_ptr_equal(fake.begin.in[1], (void *)AREA_B);
  assert_true(fake.begin.op == CUDA_AWAIT);
  assert_uint_in_range(fake.begin.timeout_ns, 1, 20 * 1000 * 1000);

  fake.found.begun = 0; // told, but with a view that is not here yet
  assert_refused(cuda_ep_await_begin(ep, seats, 3, &awaiting, 60000, &cancel, &op, &epoch, why), WEFT_ERR_TIMEOUT,
                 "published");
  assert_int_equal(epoch, 6);
  assert_int_equal(fake.begins, 4); // who publishes it asks again: no use in waiting
  fake.begins_until_found = INT32_MAX;
  assert_refused(cuda_ep_await_begin(ep, seats, 3, &awaiting, 1, &cancel, &op, &epoch, why), WEFT_ERR_TIMEOUT,
                 "no peer");
  assert_int_equal(epoch, 0);
  cancel = true;
  assert_refused(cuda_ep_await_begin(ep, seats, 3, &awaiting, 60000, &cancel, &op, &epoch, why), WEFT_ERR_CANCELED,
                 "cancelled");

  fake.begins = 0;
  fake.begins_until_found = 1;
  fake.found = (struct cuda_begin){.begun = 1};
  assert_int_equal(cuda_ep_begin(ep, NULL, 0, 17, 5, why), 0);
  assert_int_equal(fake.begin.op, 17);
  assert_int_equal(fake.begin.epoch, 5);
  fake.found.begun = 0;
  assert_refused(cuda_ep_begin(ep, NULL, 0, 17, 5, why), WEFT_ERR_NOT_FOUND, "view 5");
}

// By the places among those that have an area, and back.
static void words_of_those_who_await_go_both_ways(void **state) {
  (void)state;
  const struct device_member seats[] = {{0, 0, NULL, NULL}, {1, 1, (void *)AREA_A, NULL}, {3, 2, (void *)AREA_B, NULL}};
  struct device_awaiting awaiting = {.word = 9, .takes = 4, .peers = {1, 5, 6}};
  bool cancel = false;
  uint64_t op, epoch;
  fake.begins_until_found = 1;
  fake.found = (struct cuda_begin){.awaits = {5, 7}};
  assert_refused(cuda_ep_await_begin(ep, seats, 3, &awaiting, 60000, &cancel, &op, &epoch, why), WEFT_ERR_TIMEOUT,
                 "no peer");
  assert_int_equal(fake.begins, 1); // the wait ends with news
  assert_int_equal(epoch, 0);
  assert_int_equal(fake.begin.awaits, 9);
  assert_int_equal(fake.begin.takes, 2);
  assert_int_equal(fake.begin.known[0], 5);
  assert_int_equal(fake.begin.known[1], 6);
  assert_int_equal(awaiting.peers[0], 1);
  assert_int_equal(awaiting.peers[1], 5);
  assert_int_equal(awaiting.peers[2], 7);
}

// It may begin, and another one would begin once more.
static void a_kernel_that_was_not_awaited_says_what_it_began(void **state) {
  (void)state;
  const struct device_member seats[] = {{0, 0, (void *)AREA_A, NULL}};
  struct device_awaiting awaiting = {0};
  bool cancel = false;
  uint64_t op = 99, epoch = 99;
  fake.begins_until_found = INT32_MAX;
  for (int late = 0; late < 2; late++) {
    fake.query = cudaErrorUnknown;
    assert_refused(cuda_ep_await_begin(ep, seats, 1, &awaiting, 60000, &cancel, &op, &epoch, why), WEFT_ERR_SYSTEM,
                   "beginning");
  }
  assert_int_equal(fake.begins, 1);
  *fake.begin.result = (struct cuda_begin){.op = 40, .epoch = 6, .begun = 1};
  assert_int_equal(cuda_ep_await_begin(ep, seats, 1, &awaiting, 60000, &cancel, &op, &epoch, why), 0);
  assert_int_equal(fake.begins, 1);
  assert_int_equal(op, 40);
  assert_int_equal(epoch, 6);
  assert_int_equal(ep->begun, 6);
  assert_refused(cuda_ep_await_begin(ep, seats, 1, &awaiting, 1, &cancel, &op, &epoch, why), WEFT_ERR_TIMEOUT,
                 "no peer");
  assert_true(fake.begins > 1);
  fake.query = cudaErrorUnknown; // what it says of those who await is of other seats
  assert_refused(cuda_ep_await_begin(ep, seats, 1, &awaiting, 60000, &cancel, &op, &epoch, why), WEFT_ERR_SYSTEM,
                 "beginning");
  *fake.begin.result = (struct cuda_begin){.awaits = {9}};
  assert_refused(cuda_ep_await_begin(ep, seats, 1, &awaiting, 1, &cancel, &op, &epoch, why), WEFT_ERR_TIMEOUT,
                 "no peer");
  assert_int_equal(awaiting.peers[0], 0);
}

static void the_view_that_one_began_with_counts_as_active(void **state) {
  (void)state;
  fake.begins_until_found = 1;
  fake.found = (struct cuda_begin){.begun = 1};
  for (uint64_t epoch = 1; epoch <= CUDA_PUBLISHED; epoch++)
    assert_int_equal(publish(epoch), 0);
  assert_int_equal(cuda_ep_begin(ep, NULL, 0, 0, 2, why), 0);
  assert_int_equal(publish(9), 0);
  assert_refused(publish(10), WEFT_ERR_BUSY, "wait to take effect");
}

static _Alignas(16) char x[64], more[64];

static struct device_dispatch good(void) {
  return (struct device_dispatch){.halves = DEVICE_SEND | DEVICE_RECV,
                                  .kind = 1,
                                  .x = x,
                                  .topk_idx = (int64_t *)x,
                                  .num_tokens = 3,
                                  .rows = 4,
                                  .out = more,
                                  .out_scales = more,
                                  .counts = (int32_t *)more};
}

static void a_launch_has_what_was_given(void **state) {
  (void)state;
  struct device_dispatch d = good();
  assert_int_equal(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), 0);
  assert_ptr_equal(fake.dispatch.state, ep->state);
  assert_int_equal(fake.dispatch.capacity, 8);
  assert_int_equal(fake.dispatch.d.num_tokens, 3);
  assert_int_equal(fake.dispatch.members, 8);
  assert_int_equal(fake.blocks, FAKE_PROCESSORS);
  assert_true(fake.early);
  struct device_combine c = {
      .halves = DEVICE_SEND | DEVICE_RECV, .y = x, .out = more, .num_tokens = 3, .topk_idx = (int64_t *)x};
  assert_int_equal(cuda_ep_combine(ep, &c, FAKE_STREAM, why), 0);
  assert_ptr_equal(fake.combine.c.y, x);
  assert_int_equal(cuda_ep_finish(ep, FAKE_STREAM, why), 0);
  assert_int_equal(fake.launches, 3);
}

static void a_launch_has_what_its_call_says(void **state) {
  (void)state;
  struct device_dispatch d = good();
  assert_int_equal(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), 0);
  assert_true(fake.dispatch.usual);
  d.topk = 1;
  d.dtype = CUDA_FP8_UE8M0;
  d.processors = 4;
  assert_int_equal(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), 0);
  assert_int_equal(fake.dispatch.layout.topk, 1);
  assert_int_equal(fake.dispatch.layout.dtype, CUDA_FP8_UE8M0);
  assert_int_equal(fake.dispatch.layout.answers, ep->layout.answers);
  assert_int_equal(fake.blocks, 4);
  assert_true(fake.dispatch.usual); // types and top-k take no instructions of their own
  assert_false(fake.dispatch.strided);
  d.out_scale_block_stride = 8;
  assert_int_equal(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), 0);
  assert_true(fake.dispatch.usual && fake.dispatch.strided); // strides have kernels of their own
  d.out_scale_block_stride = 0;
  d.narrow = true;
  assert_int_equal(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), 0);
  assert_false(fake.dispatch.usual);
  d.out_scale_row_stride = 1; // an expert's part begins where it does without
  assert_int_equal(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), 0);
  uint64_t words = fake.dispatch.layout.scale_bytes / sizeof(uint32_t);
  assert_int_equal(fake.dispatch.expert_scales, d.rows * words - d.rows);
  struct device_combine c = {
      .halves = DEVICE_SEND | DEVICE_RECV, .y = x, .out = more, .num_tokens = 3, .topk_idx = (int64_t *)x};
  assert_int_equal(cuda_ep_combine(ep, &c, FAKE_STREAM, why), 0);
  assert_true(fake.combine.usual);
  c.dtype = CUDA_COMBINE_LOGFMT10;
  assert_int_equal(cuda_ep_combine(ep, &c, FAKE_STREAM, why), 0);
  assert_true(fake.combine.by_call);
  assert_false(fake.combine.usual);
  uint32_t launches = (uint32_t)fake.launches;
  c.again = true;
  assert_int_equal(cuda_ep_combine(ep, &c, FAKE_STREAM, why), 0);
  assert_int_equal(fake.launches, launches + 2); // room is made first
}

// What makes room for a further combine has run, and so does not what it was for.
static void a_combine_that_was_launched_in_part_is_the_last_call(void **state) {
  (void)state;
  struct device_dispatch d = good();
  struct device_combine c = {
      .halves = DEVICE_SEND | DEVICE_RECV, .y = x, .out = more, .num_tokens = 3, .topk_idx = (int64_t *)x};
  int32_t masked[4];
  fake.fails = 'C';
  assert_refused(cuda_ep_combine(ep, &c, FAKE_STREAM, why), WEFT_ERR_SYSTEM, "cannot launch combine");
  assert_int_equal(cuda_ep_combine(ep, &c, FAKE_STREAM, why), 0); // nothing of it was launched
  c.again = true;
  fake.fails = 'C';
  assert_refused(cuda_ep_combine(ep, &c, FAKE_STREAM, why), WEFT_ERR_SYSTEM, "close this rank: cannot launch combine");
  int launches = fake.launches;
  assert_refused(cuda_ep_combine(ep, &c, FAKE_STREAM, why), WEFT_ERR_SYSTEM, "a part of a call");
  assert_refused(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), WEFT_ERR_SYSTEM, "a part of a call");
  assert_refused(cuda_ep_read_masks(ep, masked, 4, 0, false, FAKE_STREAM, why), WEFT_ERR_SYSTEM, "a part of a call");
  assert_int_equal(fake.launches, launches);
}

#define assert_dispatch_refused(change, word)                                                                          \
  do {                                                                                                                 \
    struct device_dispatch d = good();                                                                                 \
    change;                                                                                                            \
    assert_refused(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), WEFT_ERR_INVALID, word);                                \
  } while (0)

static void arguments_that_kernels_would_stumble_over_are_refused(void **state) {
  (void)state;
  assert_dispatch_refused(d.x = x + 8, "x (0x");
  assert_dispatch_refused(d.x = x + 8, "want a multiple of 16");
  assert_dispatch_refused(d.x = fake_host_memory, "memory of the host");
  assert_dispatch_refused(d.x = FAKE_OTHER_MEMORY, "memory of device 1");
  assert_dispatch_refused(d.x = NULL, "x is NULL");
  assert_dispatch_refused(d.topk_idx = (int64_t *)(x + 4), "topk_idx");
  assert_dispatch_refused(d.scales = (void *)(x + 2), "scales");
  assert_dispatch_refused(d.out = NULL, "recv.x");
  assert_dispatch_refused(d.out_scales = NULL, "recv.scales");
  assert_dispatch_refused(d.counts = NULL, "recv.counts");
  assert_dispatch_refused(d.wait_ns = (int64_t *)fake_host_memory, "recv.wait_ns");
  assert_dispatch_refused(d.num_tokens = 17, "num_tokens is 17");
  struct device_dispatch d = good();
  assert_refused(cuda_ep_dispatch(ep, &d, FAKE_OTHER_STREAM, why), WEFT_ERR_INVALID, "the stream is one of device 1");
  assert_int_equal(fake.launches, 0);
  assert_int_equal(cuda_ep_dispatch(ep, &d, NULL, why), 0); // this thread has used no device
  struct device_combine c = {.halves = DEVICE_SEND | DEVICE_RECV, .num_tokens = 3, .topk_idx = (int64_t *)x, .out = x};
  c.y = x + 2;
  assert_refused(cuda_ep_combine(ep, &c, FAKE_STREAM, why), WEFT_ERR_INVALID, "y (0x");
  c.y = x;
  c.out = more + 4;
  assert_refused(cuda_ep_combine(ep, &c, FAKE_STREAM, why), WEFT_ERR_INVALID, "out (0x");
  assert_int_equal(fake.launches, 1);
  d = (struct device_dispatch){.halves = DEVICE_SEND | DEVICE_RECV, .kind = 2};
  assert_int_equal(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), 0); // a barrier has no arguments
  c = (struct device_combine){.halves = DEVICE_SEND | DEVICE_RECV};
  assert_int_equal(cuda_ep_combine(ep, &c, FAKE_STREAM, why), 0); // nothing came, and nothing went
}

static void a_close_waits_for_what_was_launched(void **state) {
  (void)state;
  struct device_ep_options options = usual();
  struct device_dispatch d = good();
  cuda_ep_close(ep); // nothing was
  assert_int_equal(fake.drained, 0);
  assert_int_equal(cuda_ep_open(device, &options, &ep, why), 0);
  assert_int_equal(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), 0);
  cuda_ep_close(ep);
  assert_int_equal(fake.drained, 1);
  assert_int_equal(cuda_ep_open(device, &options, &ep, why), 0);
  assert_int_equal(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), 0);
  assert_int_equal(cuda_stream_wait(device, FAKE_STREAM, 1000, why), 0);
  cuda_ep_close(ep); // its stream may be gone
  assert_int_equal(fake.drained, 1);
  assert_int_equal(cuda_ep_open(device, &options, &ep, why), 0);
  assert_int_equal(cuda_stream_wait(device, FAKE_STREAM, 1000, why), 0);
  assert_int_equal(cuda_ep_finish(ep, FAKE_STREAM, why), 0); // since
  cuda_ep_close(ep);
  assert_int_equal(fake.drained, 2);
  ep = NULL;
  cuda_ep_close(ep);
}

static void records_are_those_of_the_operation_asked_for(void **state) {
  (void)state;
  struct device_record record;
  ep->state->record[9 % CUDA_RECORDS] = (struct device_record){.op = 9, .kind = 1, .num_rows = 5};
  assert_int_equal(cuda_ep_record(ep, 9, &record, why), 0);
  assert_int_equal(record.num_rows, 5);
  assert_refused(cuda_ep_record(ep, 13, &record, why), WEFT_ERR_NOT_FOUND, "operation 13");
  assert_refused(cuda_ep_record(ep, 0, &record, why), WEFT_ERR_NOT_FOUND, "operation 0"); // though it has number 0
  uint64_t missing[16];
  ep->handle[1].missing[15] = 6;
  assert_int_equal(cuda_ep_missing(ep, 9, missing, 16, why), 0);
  assert_int_equal(missing[15], 6);
  assert_refused(cuda_ep_missing(ep, 9, missing, 17, why), WEFT_ERR_INVALID, "17");
}

static void code_that_does_not_wait_by_itself_is_not_launched_early(void **state) {
  (void)state;
  struct device_ep_options options = usual();
  cuda_ep_close(ep);
  ep = NULL;
  fake.old_code = true;
  assert_int_equal(cuda_ep_open(device, &options, &ep, why), 0);
  struct device_dispatch d = good();
  assert_int_equal(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), 0);
  assert_false(fake.early);
  const struct device_combine c = {.halves = DEVICE_SEND | DEVICE_RECV, .y = x};
  assert_int_equal(cuda_ep_combine(ep, &c, FAKE_STREAM, why), 0);
  assert_true(fake.combine.before_hopper);
}

static void few_blocks_read_the_windows_of_other_hosts(void **state) {
  (void)state;
  struct device_window in = {0}, out = {0};
  void *host_in, *host_out;
  struct device_dispatch d = good();
  struct device_combine c = {.halves = DEVICE_SEND, .y = more};
  assert_int_equal(cuda_host_window_create(device, 5000, &in, &host_in, NULL, why), 0);
  assert_int_equal(cuda_host_window_create(device, 5000, &out, &host_out, NULL, why), 0);
  assert_int_equal(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), 0);
  assert_uint_in_range(fake.blocks, 1, FAKE_PROCESSORS / 2);
  d.topk = 1; // what hosts relay they read by the group's layout
  assert_refused(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), WEFT_ERR_UNSUPPORTED, "a dtype or a topk other than that");
  d.topk = 0;
  c.again = true;
  assert_refused(cuda_ep_combine(ep, &c, FAKE_STREAM, why), WEFT_ERR_UNSUPPORTED, "KEEP");
  c.again = false;
  cuda_host_window_release(device, &in, host_in);
  assert_int_equal(cuda_ep_combine(ep, &c, FAKE_STREAM, why), 0);
  assert_uint_in_range(fake.blocks, 1, FAKE_PROCESSORS / 2);
  cuda_host_window_release(device, &out, host_out);
  assert_int_equal(cuda_ep_dispatch(ep, &d, FAKE_STREAM, why), 0); // the link has gone
  assert_int_equal(fake.blocks, FAKE_PROCESSORS);
}

static void ranks_that_share_a_device_share_its_processors_out(void **state) {
  (void)state;
  struct device_ep_options options = usual();
  struct device_ep *half[3] = {NULL};
  assert_refused(cuda_ep_open(device, &options, &half[0], why), WEFT_ERR_LIMIT, "32 of the 32 processors");
  cuda_ep_close(ep);
  ep = NULL;
  options.processors = FAKE_PROCESSORS / 2;
  struct device_dispatch d = good();
  for (int i = 0; i < 2; i++) {
    assert_int_equal(cuda_ep_open(device, &options, &half[i], why), 0);
    assert_int_equal(cuda_ep_dispatch(half[i], &d, FAKE_STREAM, why), 0);
    assert_int_equal(fake.blocks, FAKE_PROCESSORS / 2);
    assert_false(fake.early);
  }
  options.processors = 1;
  assert_refused(cuda_ep_open(device, &options, &half[2], why), WEFT_ERR_LIMIT, "wants 1");
  cuda_ep_close(half[0]);
  assert_int_equal(cuda_ep_open(device, &options, &half[2], why), 0);
  cuda_ep_close(half[1]);
  cuda_ep_close(half[2]);
}

static void sizes_that_do_not_fit_are_refused(void **state) {
  (void)state;
  struct device_ep_options options = usual();
  struct device_ep *none = NULL;
  cuda_ep_close(ep);
  ep = NULL;
  options.hidden = 200;
  assert_true(cuda_ep_area_bytes(&options, why) == 0);
  assert_refused(cuda_ep_open(device, &options, &none, why), WEFT_ERR_INVALID, "hidden 200");
  options = usual();
  assert_true(cuda_ep_area_bytes(&options, why) > 0);
  fake.full = true;
  assert_refused(cuda_ep_open(device, &options, &none, why), WEFT_ERR_NOMEM, "device 0");
  fake.full = false;
  fake.combine_memory = FAKE_SHARED + 1;
  assert_refused(cuda_ep_open(device, &options, &none, why), WEFT_ERR_UNSUPPORTED, "a combine with LATENCY takes");
  fake.old_code = true; // which needs less
  assert_int_equal(cuda_ep_open(device, &options, &none, why), 0);
  cuda_ep_close(none);
  none = NULL;
  fake.old_code = false;
  fake.combine_memory = FAKE_SHARED;
  fake.memory_per_member = (FAKE_SHARED - CUDA_DISPATCH_FIXED) / 3;
  assert_int_equal(cuda_ep_open(device, &options, &ep, why), 0);
  assert_int_equal(ep->members, 3);
  fake.memory_per_member = FAKE_SHARED + 1;
  assert_refused(cuda_ep_open(device, &options, &none, why), WEFT_ERR_LIMIT, "shared memory");
  assert_null(none);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_new_engine_begins_with_nothing_but_its_pointers),
      TEST(a_published_view_has_ones_own_area_and_no_areas_without_a_link),
      TEST(a_rank_that_finds_a_view_knows_that_a_link_is_slow),
      TEST(views_that_kernels_may_look_for_are_kept),
      TEST(how_far_the_kernels_are_is_copied),
      TEST(views_before_the_first_operation_are_not_kept),
      TEST(views_out_of_order_are_refused),
      TEST(control_words_keep_the_deadline),
      TEST(a_seat_given_again_is_forgotten),
      TEST(a_device_that_does_not_answer_is_no_endless_wait),
      TEST(a_close_waits_for_a_begin_that_takes_long),
      TEST(a_stream_that_is_captured_is_not_waited_for),
      TEST(what_is_captured_runs_as_a_graph),
      TEST(links_to_peers_are_woken),
      TEST(a_first_operation_is_announced_or_not),
      TEST(words_of_those_who_await_go_both_ways),
      TEST(a_kernel_that_was_not_awaited_says_what_it_began),
      TEST(the_view_that_one_began_with_counts_as_active),
      TEST(a_launch_has_what_was_given),
      TEST(a_launch_has_what_its_call_says),
      TEST(a_combine_that_was_launched_in_part_is_the_last_call),
      TEST(arguments_that_kernels_would_stumble_over_are_refused),
      TEST(a_close_waits_for_what_was_launched),
      TEST(records_are_those_of_the_operation_asked_for),
      TEST(code_that_does_not_wait_by_itself_is_not_launched_early),
      TEST(few_blocks_read_the_windows_of_other_hosts),
      TEST(ranks_that_share_a_device_share_its_processors_out),
      TEST(sizes_that_do_not_fit_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
