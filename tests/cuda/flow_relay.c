// What the relay of two ranks of a throughput group collects, moves and refuses (cuda/relay/flow.c), step by step:
// rings of small windows, words as kernels write them, and the resulting batches.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "cuda/relay/batch.h"
#include "cuda/relay/flow.h"
#include "cuda/relay/relay.h"
#include "cuda/support/stream.h"
#include "weft/err.h"

enum { HIDDEN = 256, MOVES = 8, MOST_MOVED = 16 << 10 };
enum { CODE = HIDDEN / LOGFMT10_BLOCK * (LOGFMT10_CODE_BYTES + LOGFMT10_HEAD_BYTES) };
enum { RUN = sizeof(struct cuda_run), WORDS = sizeof(struct cuda_flow_word) };

struct side {
  struct stream stream;
  char *in, *out;
  struct device_relay *relay;
};

static void open_side(struct side *side) {
  stream_make(&side->stream, HIDDEN, true);
  side->relay = stream_relay(&side->stream, &side->in, &side->out);
}

static void close_side(struct side *side) {
  stream_end(side->relay, side->in, side->out);
}

static _Alignas(16) char batch[64 << 10];

static size_t collect(struct side *side, size_t room) {
  size_t size = cuda_relay_collect(side->relay, batch, room, NULL, NULL);
  assert_true(size <= room);
  return size;
}

static struct cuda_run run_at(size_t at) {
  struct cuda_run run;
  memcpy(&run, batch + at, sizeof run);
  return run;
}

static void rows_go_before_the_tail_and_only_up_to_it(void **state) {
  (void)state;
  struct side side;
  open_side(&side);
  uint32_t place = side.stream.flow.rows.place;
  struct cuda_flow_word *words = stream_words(&side.stream, side.out, 0);
  assert_int_equal(collect(&side, sizeof batch), 0);
  for (uint64_t position = 0; position < 3; position++)
    memset(stream_place(&side.stream, side.out, 2, position), 'a' + (int)position, place); // the third is not announced
  words[2].tail = 2 * 2;
  // Room for one row: it goes with a tail of its own. Then the other; then nothing.
  assert_int_equal(collect(&side, RUN + place + RUN + WORDS), RUN + place + RUN + WORDS);
  struct cuda_run rows = run_at(0), tail = run_at(RUN + place);
  assert_int_equal(rows.kind, RUN_PLACES);
  assert_int_equal(rows.offset, stream_place(&side.stream, side.out, 2, 0) - side.out);
  assert_memory_equal(batch + RUN, stream_place(&side.stream, side.out, 2, 0), place);
  assert_int_equal(tail.kind, RUN_CHANNELS);
  assert_int_equal(tail.offset, (char *)&words[2] - side.out);
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN + place + RUN))->tail, 1 * 2);
  assert_int_equal(collect(&side, RUN + place + RUN + WORDS - 1), 0);
  assert_int_equal(collect(&side, sizeof batch), RUN + place + RUN + WORDS);
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN + place + RUN))->tail, 2 * 2);
  assert_int_equal(collect(&side, sizeof batch), 0);
  words[2].tail = 2 * 2 + 1; // that was the last
  assert_int_equal(collect(&side, sizeof batch), RUN + WORDS);
  close_side(&side);
}

static void only_what_a_form_uses_is_sent(void **state) {
  (void)state;
  struct side side;
  open_side(&side);
  struct cuda_flow_word *words = stream_words(&side.stream, side.out, 0);
  uint32_t used = HIDDEN + 16 + cuda_routing_bytes(2), list = side.stream.flow.list;
  stream_send(&side.stream, side.out, 7, CUDA_FIELD_FORM, cuda_flow_form(CUDA_FP8, 2, HIDDEN, 2));
  words[0].tail = (7 * (uint64_t)list + 1) * 2;
  assert_int_equal(collect(&side, sizeof batch), RUN + used + RUN + WORDS);
  words[0].tail = (9 * (uint64_t)list + 1) * 2; // whose header is not there
  assert_int_equal(collect(&side, sizeof batch), RUN + side.stream.flow.rows.place + RUN + WORDS);
  stream_send(&side.stream, side.out, 11, CUDA_FIELD_FORM,
              cuda_flow_form(WEFT_EP_OPAQUE, 16, 1 << 17, 0)); // more than a place has
  words[0].tail = (11 * (uint64_t)list + 1) * 2;
  assert_int_equal(collect(&side, sizeof batch), RUN + side.stream.flow.rows.place + RUN + WORDS);
  words[CUDA_CHANNELS].coded_tail = 1 * 2;
  assert_int_equal(collect(&side, sizeof batch), 2 * RUN + CODE + 4 * TOPK + RUN + WORDS);
  words[CUDA_CHANNELS].tail = ((uint64_t)EP_MAX_COMBINES * list + 1) * 2;
  assert_int_equal(collect(&side, sizeof batch), RUN + 2 * HIDDEN + 4 * TOPK + RUN + WORDS);
  close_side(&side);
}

// The reader has given credit for it.
static void rows_of_operations_before_do_not_go(void **state) {
  (void)state;
  struct side side;
  open_side(&side);
  struct cuda_flow_word *words = stream_words(&side.stream, side.out, 0);
  uint64_t list = side.stream.flow.list;
  words[1].tail = 2 * 2 + 1;
  words[1].tail = (list + 1) * 2;
  size_t size = collect(&side, sizeof batch);
  assert_int_equal(size, RUN + side.stream.flow.rows.place + RUN + WORDS);
  assert_int_equal(run_at(0).offset, stream_place(&side.stream, side.out, 1, list) - side.out);
  close_side(&side);
}

static void channels_take_turns(void **state) {
  (void)state;
  struct side side;
  open_side(&side);
  struct cuda_flow_word *words = stream_words(&side.stream, side.out, 0);
  size_t room = RUN + side.stream.flow.rows.place + RUN + WORDS;
  words[0].tail = words[1].tail = 2;
  assert_int_equal(collect(&side, room), room);
  words[0].tail = 2 * 2; // there is more of the first
  assert_int_equal(collect(&side, room), room);
  assert_int_equal(run_at(0).offset, stream_place(&side.stream, side.out, 1, 0) - side.out);
  close_side(&side);
}

static struct device_move moved[MOVES];

static size_t collect_moves(struct side *side, struct device_moves *moves, uint64_t number, uint64_t landed) {
  *moves = (struct device_moves){.list = moved, .room = MOVES, .most = MOST_MOVED, .number = number, .landed = landed};
  return cuda_relay_collect(side->relay, batch, sizeof batch, moves, NULL);
}

static void the_rings_have_pages_of_their_own(void **state) {
  (void)state;
  struct side side;
  uint64_t offset, bytes;
  open_side(&side);
  cuda_relay_rings(side.relay, &offset, &bytes);
  assert_int_equal(offset % CUDA_STREAM_PAGE, 0);
  assert_true(offset >= side.stream.offset + CUDA_FLOW_WORDS * WORDS);
  assert_int_equal(offset + bytes, side.stream.size);
  assert_int_equal(offset, stream_place(&side.stream, side.in, 0, 0) - side.in);
  close_side(&side);
}

// A batch has the words of a tail alone, and rows that lie one behind the other are one move.
static void moves_say_where_rows_lie(void **state) {
  (void)state;
  struct side side;
  struct device_moves moves;
  open_side(&side);
  struct cuda_flow_word *words = stream_words(&side.stream, side.out, 0);
  uint32_t place = side.stream.flow.rows.place, answer = side.stream.flow.answers.place, used = 2 * HIDDEN + 4 * TOPK;
  words[2].tail = 2 * 2;
  assert_int_equal(collect_moves(&side, &moves, 1, 0), RUN + WORDS);
  assert_int_equal(run_at(0).kind, RUN_CHANNELS);
  assert_int_equal(moves.count, 1);
  assert_int_equal(moved[0].offset, stream_place(&side.stream, side.out, 2, 0) - side.out);
  assert_int_equal(moved[0].bytes, 2 * place);
  words[2].tail = 4 * 2 + 1; // goes round the ring, which has three places
  assert_int_equal(collect_moves(&side, &moves, 2, 0), RUN + WORDS);
  assert_int_equal(moves.count, 2);
  assert_int_equal(moved[0].offset, stream_place(&side.stream, side.out, 2, 2) - side.out);
  assert_int_equal(moved[1].offset, stream_place(&side.stream, side.out, 2, 0) - side.out);
  assert_int_equal(moves.bytes, 2 * place);
  words[CUDA_CHANNELS + 3].tail = 2 * 2;
  assert_int_equal(collect_moves(&side, &moves, 3, 0), RUN + WORDS);
  assert_int_equal(moves.count, 1);
  assert_int_equal(moved[0].bytes, answer + used);
  words[CUDA_CHANNELS].coded_tail = 1 * 2; // small parts of which are copied
  assert_int_equal(collect_moves(&side, &moves, 4, 0), 2 * RUN + CODE + 4 * TOPK + RUN + WORDS);
  assert_int_equal(moves.count, 0);
  assert_int_equal(collect_moves(&side, &moves, 5, 0), 0);
  close_side(&side);
}

static void there_are_no_more_moves_than_there_may_be(void **state) {
  (void)state;
  struct side side;
  open_side(&side);
  struct cuda_flow_word *words = stream_words(&side.stream, side.out, 0);
  uint32_t place = side.stream.flow.rows.place;
  struct device_moves moves = {.list = moved, .room = 1, .most = 2 * place, .number = 1};
  words[0].tail = 3 * 2;
  assert_int_equal(cuda_relay_collect(side.relay, batch, sizeof batch, &moves, NULL), RUN + WORDS);
  assert_int_equal(moves.bytes, 2 * place);
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN))->tail, 2 * 2);
  words[2].tail = 2; // elsewhere
  moves = (struct device_moves){.list = moved, .room = 1, .most = MOST_MOVED, .number = 2};
  assert_int_equal(cuda_relay_collect(side.relay, batch, sizeof batch, &moves, NULL), RUN + WORDS);
  assert_int_equal(moves.bytes, place);
  moves = (struct device_moves){.list = moved, .room = 1, .most = MOST_MOVED, .number = 3};
  assert_int_equal(cuda_relay_collect(side.relay, batch, sizeof batch, &moves, NULL), RUN + WORDS);
  assert_int_equal(run_at(0).offset, (char *)&words[2] - side.out);
  close_side(&side);
}

// Of an operation that its reader passed over rows may be under way when the next one's are written to their places.
static void rows_wait_for_what_is_under_way_to_their_places(void **state) {
  (void)state;
  struct side side;
  struct device_moves moves;
  open_side(&side);
  struct cuda_flow_word *words = stream_words(&side.stream, side.out, 0);
  uint64_t list = side.stream.flow.list;
  words[1].tail = 2;
  assert_int_equal(collect_moves(&side, &moves, 1, 0), RUN + WORDS);
  words[1].tail = (list + 1) * 2;
  assert_int_equal(collect_moves(&side, &moves, 2, 0), 0);
  words[1].credit = 5; // which goes, and what goes through other rings
  words[3].tail = 2;
  assert_int_equal(collect_moves(&side, &moves, 2, 0), 2 * (RUN + WORDS));
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN))->tail, 2);
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN))->credit, 5);
  assert_int_equal(moves.count, 1);
  words[1].tail = (2 * list + 1) * 2;
  assert_int_equal(collect_moves(&side, &moves, 3, 0), 0);
  assert_int_equal(collect_moves(&side, &moves, 3, 1), RUN + WORDS);
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN))->tail, (2 * list + 1) * 2);
  assert_int_equal(moved[0].offset, stream_place(&side.stream, side.out, 1, 2 * list) - side.out);
  words[1].tail = (2 * list + 2) * 2; // of the same operation: they do not wait
  assert_int_equal(collect_moves(&side, &moves, 4, 1), RUN + WORDS);
  words[CUDA_CHANNELS].tail = 2; // rows in either format have the same places
  words[CUDA_CHANNELS].coded_tail = ((uint64_t)EP_MAX_COMBINES * list + 1) * 2;
  collect_moves(&side, &moves, 5, 4);
  assert_int_equal(moves.count, 1);
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN))->coded_tail, 0);
  collect_moves(&side, &moves, 6, 5);
  assert_int_equal(moves.count, 0); // in the batch
  assert_int_equal(run_at(0).kind, RUN_PLACES);
  close_side(&side);
}

static void assert_refused(struct side *side, uint32_t kind, uint64_t offset, uint32_t bytes) {
  char why[DEVICE_WHY] = "";
  const struct cuda_run right = {.offset = (uint32_t)side->stream.offset, .bytes = WORDS, .kind = RUN_CHANNELS};
  const struct cuda_run run = {.offset = (uint32_t)offset, .bytes = bytes, .kind = kind};
  memset(batch, 0x77, sizeof batch);
  memcpy(batch, &right, RUN); // what is right before it is not written either
  memcpy(batch + RUN + WORDS, &run, RUN);
  if (cuda_relay_deliver(side->relay, batch, RUN + WORDS + RUN + (bytes < 1024 ? bytes : 1024), NULL, why) !=
      WEFT_ERR_PROTOCOL)
    fail_msg("a run of kind %u with %u bytes at %llu is taken", kind, bytes, (unsigned long long)offset);
  assert_non_null(strstr(why, "run"));
}

static void what_does_not_belong_into_a_stream_is_refused(void **state) {
  (void)state;
  struct side side;
  open_side(&side);
  uint64_t begin = side.stream.offset, words = CUDA_FLOW_WORDS * WORDS, rings = begin + side.stream.flow.rows.at,
           end = side.stream.size;
  char *before = malloc(side.stream.size);
  assert_non_null(before);
  memcpy(before, side.in, side.stream.size);
  assert_refused(&side, RUN_PLACES, rings, 0);
  assert_refused(&side, RUN_PLACES, rings - 16, 16); // what our kernels keep
  assert_refused(&side, RUN_PLACES, begin, 16);
  assert_refused(&side, RUN_PLACES, 0, 16);
  assert_refused(&side, RUN_PLACES, rings + 8, 16);
  assert_refused(&side, RUN_PLACES, rings, 24);
  assert_refused(&side, RUN_PLACES, end, 16);
  assert_refused(&side, RUN_PLACES, end - 16, 32);
  assert_refused(&side, RUN_PLACES, UINT32_MAX - 15, 16);
  assert_refused(&side, RUN_PLACES, rings, UINT32_MAX - 15);
  assert_refused(&side, RUN_CHANNELS, begin - WORDS, WORDS);
  assert_refused(&side, RUN_CHANNELS, begin + 16, WORDS);
  assert_refused(&side, RUN_CHANNELS, begin, WORDS / 2);
  assert_refused(&side, RUN_CHANNELS, begin + words, WORDS);
  assert_refused(&side, RUN_CHANNELS, begin + words - WORDS, 2 * WORDS);
  assert_refused(&side, RUN_CHANNELS, rings, WORDS);
  assert_refused(&side, RUN_ELSEWHERE, rings, 16); // nobody finds windows of neighbours
  assert_refused(&side, RUN_ELSEWHERE, rings, 32);
  assert_refused(&side, RUN_ELSEWHERE + 1, rings, 16);
  assert_refused(&side, RUN_VALUES, rings, 16); // of the area alone
  assert_refused(&side, RUN_UNITS, begin, 16);
  assert_memory_equal(before, side.in, side.stream.size);
  free(before);
  close_side(&side);
}

static void a_group_for_latency_has_no_streams(void **state) {
  (void)state;
  struct stream stream;
  struct cuda_layout layout;
  struct cuda_forms forms;
  struct device_relay *relay = NULL;
  char why[DEVICE_WHY] = "";
  stream_make(&stream, HIDDEN, true);
  struct device_ep_options options = stream.options;
  options.window_bytes = 0;
  assert_int_equal(cuda_relay_open(&options, batch, batch, &relay, why), WEFT_ERR_INVALID);
  assert_non_null(strstr(why, "window_bytes is 0"));
  options.throughput = false;
  options.max_tokens = 2;
  cuda_area_of(&options, &layout, &forms);
  char *area = aligned_alloc(CUDA_LINE, layout.area);
  assert_non_null(area);
  cuda_area_init(area, layout.area);
  assert_int_equal(cuda_relay_open(&options, area, area, &relay, why), 0);
  const struct cuda_run run = {.offset = 0, .bytes = WORDS, .kind = RUN_CHANNELS};
  memcpy(batch, &run, RUN);
  assert_int_equal(cuda_relay_deliver(relay, batch, RUN + WORDS, NULL, why), WEFT_ERR_PROTOCOL);
  cuda_relay_close(relay);
  free(area);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_go_before_the_tail_and_only_up_to_it),
      cmocka_unit_test(only_what_a_form_uses_is_sent),
      cmocka_unit_test(rows_of_operations_before_do_not_go),
      cmocka_unit_test(channels_take_turns),
      cmocka_unit_test(the_rings_have_pages_of_their_own),
      cmocka_unit_test(moves_say_where_rows_lie),
      cmocka_unit_test(there_are_no_more_moves_than_there_may_be),
      cmocka_unit_test(rows_wait_for_what_is_under_way_to_their_places),
      cmocka_unit_test(what_does_not_belong_into_a_stream_is_refused),
      cmocka_unit_test(a_group_for_latency_has_no_streams),
  };
  return cmocka_run_group_tests_name("cuda_flow_relay", tests, NULL, NULL);
}
