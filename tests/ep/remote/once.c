// Rows that cross to another host once (host/send/): ranks on two declared hosts, even ranks on one and odd ranks on
// the other. The test counts network traffic where it is posted. Carriers, readers and sources are killed and stopped
// at critical moments, and the oracle checks every remaining rank.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/host/host.h"
#include "ep/remote/neighbours.h"
#include "ep/remote/remote_link.h"
#include "ep/support/processes.h"

enum { RANKS = 6, DEADLINE_MS = 60000, MEASURED = 6, STEPS_BEFORE = 3, STEPS_AFTER = 15, MOMENT_MS = 150 };

enum strikes {
  NOBODY,
  CARRIER_KILLED_BEFORE,  // its rows have arrived, as far as the source knows
  CARRIER_STOPPED_BEFORE, // likewise
  CARRIER_KILLED_AFTER,   // its rows have arrived, and before those who read them know
  SOURCE_KILLED,          // when one of three has been told of its piece
  READER_KILLED,          // when it reads rows of a carrier
  READER_STOPPED,         // likewise
  READER_SLOW,            // likewise; the carrier is sent more meanwhile
};

enum { SOURCE = 0, CARRIER = 1, READER = 3 };

struct story {
  uint32_t ranks;
  enum strikes strikes;
  int32_t victim;
  int32_t cannot_map; // a rank that maps no window of its neighbours; -1: all do
  // Shared by the processes.
  struct board *board;
};

struct board {
  _Atomic pid_t pids[RANKS];
  _Atomic uint64_t operations[RANKS];
  _Atomic uint64_t crossed[RANKS], expected[RANKS], pairs[RANKS], bytes[RANKS], wire_bytes[RANKS];
  _Atomic uint32_t read_of_the_dead, struck, fenced, wrong;
};

// Of this process.
static const struct story *story;
static struct rank *self;
static bool armed;
static uint64_t rows_posted, bytes_posted;

// --- what is seen and struck ---

void __real_ep_net_post(struct ep_net *net, struct ep_post *post);
bool __real_ep_put_rows_arrived(const struct ep_link *link, uint64_t op);
void __real_ep_put_publish_apart(struct ep_link *link, uint64_t op);
const void *__real_ep_neighbours_area(const weft_ep_t *ep, const struct ep_link *source, uint64_t number);
int __real_ep_window_map_read(struct ep_window *window, size_t size, int fd);
void __wrap_ep_net_post(struct ep_net *net, struct ep_post *post);
bool __wrap_ep_put_rows_arrived(const struct ep_link *link, uint64_t op);
void __wrap_ep_put_publish_apart(struct ep_link *link, uint64_t op);
const void *__wrap_ep_neighbours_area(const weft_ep_t *ep, const struct ep_link *source, uint64_t number);
int __wrap_ep_window_map_read(struct ep_window *window, size_t size, int fd);

// Rows of dispatches, and all bytes of these.
void __wrap_ep_net_post(struct ep_net *net, struct ep_post *post) {
  for (int slot = 0; post->part && slot < EP_DEPTH; slot++) {
    const struct ep_publication *part = &post->remote->parts[slot][EP_PART_DISPATCH];
    if (post->part != (const void *)part)
      continue;
    uint64_t row_bytes = post == &part->heads ? 0 : post->request.pieces[0].length;
    rows_posted += row_bytes / part->strides[0];
    for (uint32_t i = 0; i < post->request.num_pieces; i++)
      bytes_posted += post->request.pieces[i].length;
  }
  __real_ep_net_post(net, post);
}

static void strike(pid_t pid, int signal) {
  if (atomic_exchange(&story->board->struck, 1) == 0)
    kill(pid, signal);
}

static struct ep_link *link_to(int32_t rank) {
  return atomic_load(&self->ep->links.by_rank[rank]);
}

bool __wrap_ep_put_rows_arrived(const struct ep_link *link, uint64_t op) {
  bool before = story->strikes == CARRIER_KILLED_BEFORE || story->strikes == CARRIER_STOPPED_BEFORE;
  if (armed && before && self->index == SOURCE && link->rank == CARRIER) {
    strike(story->board->pids[CARRIER], story->strikes == CARRIER_KILLED_BEFORE ? SIGKILL : SIGSTOP);
    return false;
  }
  return __real_ep_put_rows_arrived(link, op);
}

void __wrap_ep_put_publish_apart(struct ep_link *link, uint64_t op) {
  if (armed && self->index == SOURCE && link->rank == READER && story->strikes == SOURCE_KILLED)
    kill(getpid(), SIGKILL);
  if (armed && self->index == SOURCE && link->rank == READER && story->strikes == CARRIER_KILLED_AFTER &&
      !story->board->struck) {
    uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
    strike(story->board->pids[CARRIER], SIGKILL);
    while (ep_link_up(link_to(CARRIER)) && !clock_passed(deadline))
      poll(NULL, 0, 1);
  }
  __real_ep_put_publish_apart(link, op);
}

static bool is_of_the_dead(const weft_ep_t *ep, uint64_t number) {
  const struct ep_neighbour_area *area = atomic_load(&ep->links.areas);
  while (area && area->number != number)
    area = area->next;
  return area && area->carrier == CARRIER && story->strikes == CARRIER_KILLED_AFTER && story->board->struck;
}

// Waits a moment for the carrier to receive all its rows. It cannot: the source waits for this rank before it
// overwrites what this rank reads.
static void await_carrier(void) {
  static uint64_t waited_in;
  uint64_t op = weft_ep_next_op(self->ep), deadline = clock_deadline_ms(MOMENT_MS);
  if (waited_in == op)
    return;
  waited_in = op;
  while (story->board->operations[CARRIER] < op && !clock_passed(deadline))
    poll(NULL, 0, 1);
}

const void *__wrap_ep_neighbours_area(const weft_ep_t *ep, const struct ep_link *source, uint64_t number) {
  static uint32_t calls;
  bool reader = self->index == READER && (story->strikes == READER_KILLED || story->strikes == READER_STOPPED);
  if (armed && reader && ++calls == 25) // rows of the first pieces are checked and laid out by then
    strike(getpid(), story->strikes == READER_KILLED ? SIGKILL : SIGSTOP);
  if (armed && self->index == READER && story->strikes == READER_SLOW)
    await_carrier();
  story->board->read_of_the_dead += is_of_the_dead(ep, number);
  return __real_ep_neighbours_area(ep, source, number);
}

int __wrap_ep_window_map_read(struct ep_window *window, size_t size, int fd) {
  if (self->index == story->cannot_map)
    return fail(WEFT_ERR_NOMEM, "this rank maps no window of a neighbour");
  return __real_ep_window_map_read(window, size, fd);
}

// --- what is expected ---

static bool on_one_host(int32_t a, int32_t b) {
  return a % 2 == b % 2;
}

static bool maps(int32_t rank) {
  return rank != story->cannot_map;
}

// Whether this rank knows of all ranks of the other host which windows they read.
static bool knows_all(struct rank *rank) {
  for (int32_t a = 0; a < (int32_t)story->ranks; a++)
    for (int32_t b = 0; b < (int32_t)story->ranks; b++) {
      if (a == b || on_one_host(rank->index, a) || !on_one_host(a, b) || !maps(a))
        continue;
      const struct ep_link *reader = link_to(a), *carrier = link_to(b);
      if (!reader || !carrier || !ep_neighbours_reads(reader, carrier))
        return false;
    }
  return true;
}

// Counts the last operation's tokens: pairs of a token and a rank of the other host that gets it, and rows that have to
// cross for them.
static void expect(struct rank *rank) {
  struct board *board = story->board;
  uint32_t tokens = pattern_tokens(&rank->pattern, rank->info.op, rank->index);
  uint64_t local = 0, pairs = 0, crossed = 0;
  for (uint32_t t = 0; t < tokens; t++) {
    uint64_t ranks = 0;
    bool shared = false;
    for (uint32_t k = 0; k < rank->setup.topk; k++)
      if (rank->topk_idx[t * rank->setup.topk + k] >= 0)
        ranks |= 1u << rank->topk_idx[t * rank->setup.topk + k] / rank->setup.experts;
    for (int32_t r = 0; r < (int32_t)story->ranks; r++) {
      bool gets = ranks >> r & 1, far = !on_one_host(rank->index, r);
      local += gets && !far && r != rank->index;
      pairs += gets && far;
      crossed += gets && far && !maps(r);
      shared |= gets && far && maps(r);
    }
    crossed += shared;
  }
  const struct ep_layout *layout = &rank->ep->layout;
  uint64_t row_bytes = layout->value_bytes + layout->scale_bytes;
  board->pairs[rank->index] += pairs;
  board->expected[rank->index] += crossed;
  board->wire_bytes[rank->index] += rank->info.wire_bytes;
  board->bytes[rank->index] += ep_layout_bytes(layout, row_bytes, (uint32_t)local) +
                               ep_layout_bytes(layout, 0, (uint32_t)pairs) + row_bytes * crossed;
}

// --- counting ---

static bool measure(struct rank *rank, void *arg) {
  static const int32_t all[RANKS] = {0, 1, 2, 3, 4, 5};
  story = arg;
  self = rank;
  if (!rank_open(rank, &rank->setup, rank->index, all, story->ranks) || !rank_activate(rank))
    return false;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  for (uint32_t measured = 0; rank->info.mark < 1;) {
    bool counts = knows_all(rank);
    rows_posted = 0;
    if (!rank_operate(rank))
      return false;
    if (counts && measured < MEASURED) {
      measured++;
      story->board->crossed[rank->index] += rows_posted;
      expect(rank);
    }
    if (measured == MEASURED)
      weft_ep_set_mark(rank->ep, 1);
    if (clock_passed(deadline))
      return rank_fail(rank, "it does not know which windows the ranks of the other host read");
  }
  return true;
}

// Returns by how much fewer rows crossed than without sharing, times 1,000.
static uint64_t count(struct setup setup, uint32_t ranks, int32_t cannot_map) {
  struct story told = {.ranks = ranks, .cannot_map = cannot_map, .board = processes_share(sizeof *told.board)};
  struct processes processes;
  uint64_t crossed = 0, pairs = 0;
  processes_start(&processes, ranks, &setup, measure, &told);
  bool good = true;
  for (uint32_t i = 0; i < ranks; i++)
    good &= processes_expect(&processes, i, 0);
  assert_true(good);
  for (uint32_t i = 0; i < ranks; i++) {
    assert_int_equal(told.board->crossed[i], told.board->expected[i]);
    crossed += told.board->crossed[i];
    pairs += told.board->pairs[i];
  }
  processes_end(&processes);
  assert_true(crossed > 0);
  print_message("%u ranks, top-%u: %llu rows crossed for %llu pairs of a token and a rank, %.2f times fewer\n", ranks,
                setup.topk, (unsigned long long)crossed, (unsigned long long)pairs, (double)pairs / (double)crossed);
  return pairs * 1000 / crossed;
}

static const struct setup drawn = {
    .tokens = 120, .window = 25, .topk = 6, .capacity = RANKS, .layout = WEFT_EP_RANK_MAJOR};

// Nearly every token has experts on all ranks of the other host.
static void a_token_crosses_once_for_each_host(void **state) {
  (void)state;
  struct setup setup = drawn;
  assert_true(count(setup, 4, -1) > 1500);
  setup.layout = WEFT_EP_PER_EXPERT;
  setup.dtype = WEFT_EP_FP8;
  assert_true(count(setup, 6, -1) > 1700);
  setup.uneven = true;
  setup.topk = 2;
  count(setup, 5, -1);
}

static void a_rank_that_cannot_map_gets_rows_of_its_own(void **state) {
  (void)state;
  for (uint32_t ranks = 4; ranks <= RANKS; ranks += 2) {
    uint64_t all = count(drawn, ranks, -1), fewer = count(drawn, ranks, 3);
    assert_true(fewer > 1100 && fewer < all - 200);
  }
}

// --- credit ---

// The source's tokens all go to the carrier, the first of them to the reader too, which has all its rows with the first
// piece. Others send none.
static bool dispatch_to_carrier(struct rank *rank) {
  const uint32_t hidden = rank->setup.hidden, tokens = rank->index == SOURCE ? rank->setup.tokens : 0;
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  for (uint32_t t = 0; t < tokens; t++) {
    rank->topk_idx[2 * t] = CARRIER * (int64_t)rank->setup.experts;
    rank->topk_idx[2 * t + 1] = t < 10 ? READER * (int64_t)rank->setup.experts : -1;
    for (uint32_t i = 0; i < hidden; i++)
      rank->x[t * hidden + i] = (uint16_t)(t + weft_ep_next_op(rank->ep) % 100 * 128);
  }
  args.x = rank->x;
  args.num_tokens = tokens;
  args.topk_idx = rank->topk_idx;
  args.topk_weights = rank->weights;
  rank->info.size = sizeof rank->info;
  uint64_t op;
  if (weft_ep_dispatch(rank->ep, &args, &rank->recv, &rank->info, &op) != 0)
    return rank_fail(rank, "dispatch: %s", weft_last_error());
  uint32_t rows = rank->index == CARRIER ? rank->setup.tokens : rank->index == READER ? 10 : 0;
  if (rank->info.num_rows != rows)
    return rank_fail(rank, "%u rows came, not %u", rank->info.num_rows, rows);
  for (uint32_t i = 0; i < rows * hidden; i++)
    if (((const uint16_t *)rank->received)[i] != i / hidden + op % 100 * 128)
      return rank_fail(rank, "row %u of %u has values of another", i / hidden, rows);
  story->board->operations[rank->index] = op + 1;
  return weft_ep_finish(rank->ep, op) == 0 || rank_fail(rank, "finish: %s", weft_last_error());
}

static bool read_slowly(struct rank *rank, void *arg) {
  static const int32_t all[] = {0, 1, 2, 3};
  story = arg;
  self = rank;
  if (!rank_open(rank, &rank->setup, rank->index, all, story->ranks) || !rank_activate(rank))
    return false;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  for (uint32_t steps = 0; rank->info.mark < 2 && !clock_passed(deadline); steps += armed) {
    weft_ep_set_mark(rank->ep, steps >= MEASURED ? 2 : knows_all(rank));
    armed = rank->info.mark == 1;
    if (!dispatch_to_carrier(rank))
      return false;
  }
  return rank->info.mark == 2 ? true : rank_fail(rank, "not all know which windows the others read");
}

static void rows_are_not_overwritten_while_a_neighbour_reads_them(void **state) {
  (void)state;
  struct setup setup = drawn;
  setup.topk = 2;
  struct story told = {
      .ranks = 4, .strikes = READER_SLOW, .cannot_map = -1, .board = processes_share(sizeof *told.board)};
  struct processes processes;
  processes_start(&processes, told.ranks, &setup, read_slowly, &told);
  bool good = true;
  for (uint32_t i = 0; i < told.ranks; i++)
    good &= processes_expect(&processes, i, 0);
  assert_true(good);
  processes_end(&processes);
}

// --- losses ---

static bool live(struct rank *rank, void *arg) {
  static const int32_t all[RANKS] = {0, 1, 2, 3, 4, 5};
  story = arg;
  self = rank;
  struct board *board = story->board;
  board->pids[rank->index] = getpid();
  if (!rank_open(rank, &rank->setup, rank->index, all, story->ranks) || !rank_activate(rank))
    return false;
  int32_t left[RANKS];
  uint32_t count = 0, ready = 0, after = 0;
  for (int32_t i = 0; i < (int32_t)story->ranks; i++)
    if (i != story->victim)
      left[count++] = i;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (rank->info.mark < 2 && !clock_passed(deadline)) {
    ready += knows_all(rank);
    if (ready >= STEPS_BEFORE && after < STEPS_AFTER)
      weft_ep_set_mark(rank->ep, 1);
    armed = rank->info.mark == 1; // all know
    if (!rank_operate(rank)) {
      board->fenced += strstr(rank->error, "FENCED") != NULL;
      return rank->index == story->victim && strstr(rank->error, "FENCED");
    }
    board->operations[rank->index]++;
    for (uint32_t i = 0; rank->index != story->victim && i < rank->result.num_missing; i++)
      board->wrong += rank->missing[i].expert / rank->setup.experts != story->victim;
    after += rank_sees(rank, left, count);
    if (after == STEPS_AFTER)
      weft_ep_set_mark(rank->ep, 2);
  }
  return rank->info.mark == 2 ? true : rank_fail(rank, "the end did not come, %u after the view that is left", after);
}

// Wakes the victim when the others have gone on without it for long.
static void wake(const struct processes *processes, const struct story *told) {
  int status;
  pid_t pid = processes->pids[told->victim];
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
  assert_true(WIFSTOPPED(status));
  uint64_t before = told->board->operations[2];
  while (told->board->operations[2] < before + STEPS_AFTER / 2 && !clock_passed(deadline))
    poll(NULL, 0, 5);
  kill(pid, SIGCONT);
}

static void run_scenario(enum strikes strikes, int32_t victim) {
  bool stops = strikes == CARRIER_STOPPED_BEFORE || strikes == READER_STOPPED;
  for (uint32_t ranks = 4; ranks <= RANKS; ranks += 2) {
    struct setup setup = drawn;
    setup.timeout_ms = stops ? 2000 : 0;
    setup.layout = ranks == 4 ? WEFT_EP_RANK_MAJOR : WEFT_EP_PER_EXPERT;
    struct story told = {.ranks = ranks,
                         .strikes = strikes,
                         .victim = victim,
                         .cannot_map = -1,
                         .board = processes_share(sizeof *told.board)};
    struct processes processes;
    processes_start(&processes, ranks, &setup, live, &told);
    if (stops)
      wake(&processes, &told);
    bool good = true;
    for (uint32_t i = 0; i < ranks; i++)
      good &= processes_expect(&processes, i, (int32_t)i == victim && !stops ? SIGKILL : 0);
    assert_true(good);
    assert_int_equal(told.board->wrong, 0);
    assert_int_equal(told.board->fenced, stops);
    assert_true(strikes == SOURCE_KILLED || told.board->struck);
    assert_true(strikes != CARRIER_KILLED_AFTER || told.board->read_of_the_dead > 0);
    processes_end(&processes);
  }
}

static void a_carrier_dies_before_its_rows_have_arrived(void **state) {
  (void)state;
  run_scenario(CARRIER_KILLED_BEFORE, CARRIER);
}

static void a_carrier_dies_before_its_rows_are_read(void **state) {
  (void)state;
  run_scenario(CARRIER_KILLED_AFTER, CARRIER);
}

static void a_carrier_is_stopped_before_its_rows_have_arrived(void **state) {
  (void)state;
  run_scenario(CARRIER_STOPPED_BEFORE, CARRIER);
}

static void a_source_dies_when_one_rank_has_its_piece(void **state) {
  (void)state;
  run_scenario(SOURCE_KILLED, SOURCE);
}

static void a_reader_dies(void **state) {
  (void)state;
  run_scenario(READER_KILLED, READER);
}

// What it reads is overwritten meanwhile.
static void a_reader_is_stopped_past_the_deadline(void **state) {
  (void)state;
  run_scenario(READER_STOPPED, READER);
}

int main(void) {
  setenv("WEFT_TEST_HOSTS", "2", 0);
  setenv("WEFT_EP_TRANSPORT", "shm", 0);
  setenv("WEFT_ADDRESS", "127.0.0.1", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_token_crosses_once_for_each_host),
      cmocka_unit_test(a_rank_that_cannot_map_gets_rows_of_its_own),
      cmocka_unit_test(rows_are_not_overwritten_while_a_neighbour_reads_them),
      cmocka_unit_test(a_carrier_dies_before_its_rows_have_arrived),
      cmocka_unit_test(a_carrier_dies_before_its_rows_are_read),
      cmocka_unit_test(a_carrier_is_stopped_before_its_rows_have_arrived),
      cmocka_unit_test(a_source_dies_when_one_rank_has_its_piece),
      cmocka_unit_test(a_reader_dies),
      cmocka_unit_test(a_reader_is_stopped_past_the_deadline),
  };
  return cmocka_run_group_tests_name("ep_once", tests, NULL, NULL);
}
