// The lead starts the rank processes of a host, sends them what to measure, watches them, and ends them.
#include "bench/ep/lead.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/fail.h"
#include "base/signal/stop.h"
#include "base/time/clock.h"

enum {
  LOOK_MS = 100,     // between two looks at signals and other hosts
  REASON_MS = 1000,  // a rank may report a loss so long before the lead notices the death
  ENDING_MS = 3000,  // after a signal the operation under way, and the closing of ranks, may take so long
  FAILING_MS = 300,  // the same if something has failed
  WAIT_LIMIT_S = 30, // longer than all waits of the ranks
};

// --- processes ---

// A rank's process uses nothing of the lead but the board and its own socket.
static int be_rank(void *arg, uint32_t index, int socket) {
  const struct bench_ep_lead *lead = arg;
  stop_ignore(); // the lead handles signals, and ends this process
  return bench_ep_rank_main(lead->config, lead->sweep, lead->board, index, socket);
}

int bench_ep_lead_open(struct bench_ep_lead *lead, const struct bench_ep_config *config,
                       const struct bench_ep_sweep *sweep, const struct bench_ep_watch *watch) {
  *lead = (struct bench_ep_lead){.config = config, .sweep = sweep, .watch = *watch, .lost = -1};
  lead->board_size = bench_ep_board_size(config->local_ranks, config->iterations);
  lead->board = mmap(NULL, lead->board_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (lead->board == MAP_FAILED) {
    lead->board = NULL;
    return fail_errno(errno, "no memory for the times of %u ranks", config->local_ranks);
  }
  lead->board->iterations = config->iterations;
  return bench_children_start(&lead->children, config->local_ranks, be_rank, lead);
}

// A rank that is not stuck notices at once that there are no more commands.
void bench_ep_lead_close(struct bench_ep_lead *lead, bool failed) {
  for (uint32_t i = 0; i < lead->children.count; i++)
    shutdown(lead->children.list[i].socket, SHUT_RDWR);
  bench_children_wait(&lead->children, failed ? FAILING_MS : ENDING_MS);
  bench_children_end(&lead->children);
  if (lead->board)
    munmap(lead->board, lead->board_size);
  lead->board = NULL;
}

uint32_t bench_ep_lead_takes(const struct bench_ep_lead *lead, const struct bench_ep_point *point) {
  uint32_t first = (uint32_t)lead->board->first_rank;
  uint32_t others = point->ranks > first ? point->ranks - first : 0;
  return others < lead->children.count ? others : lead->children.count;
}

// --- a measurement ---

struct round {
  struct bench_ep_lead *lead;
  uint32_t count; // the number of ranks that take part
  uint32_t answered;
  bool has_answered[BENCH_EP_MAX_RANKS];
  int err; // the most important failure so far
  char error[FAIL_DETAIL_SIZE];
  uint64_t reason_ns; // how long a better reason is awaited after a failure; CLOCK_NEVER: nothing has failed
  uint64_t still_ns;  // when ranks that make no progress are given up
  uint64_t ending_ns; // when ranks that go on after a signal are given up; CLOCK_NEVER: no signal has come
  uint64_t progress;  // the sum of all ranks' iterations
};

// A death is more important than what other ranks report about it. A rank's own error is more important than the report
// that it lost another rank.
static void note_failure(struct round *round, int err, int32_t lost, const char *error) {
  bool better = !round->err || round->err == WEFT_ERR_PEER_LOST || round->err == WEFT_ERR_TIMEOUT;
  if (!better)
    return;
  round->err = err;
  round->lead->lost = lost;
  snprintf(round->error, sizeof round->error, "%s", error);
  uint64_t reason_ns = err == WEFT_ERR_PEER_LOST || err == WEFT_ERR_TIMEOUT ? clock_deadline_ms(REASON_MS) : clock_ns();
  round->reason_ns = reason_ns < round->reason_ns ? reason_ns : round->reason_ns;
}

// A death is the cause of whatever other ranks have reported.
static void note_death(struct round *round, uint32_t index) {
  struct bench_ep_lead *lead = round->lead;
  int32_t rank = lead->board->first_rank + (int32_t)index;
  char how[128] = "closed its socket", error[256];
  uint64_t deadline_ns = clock_deadline_ms(REASON_MS); // the socket closes a moment before the process ends
  uint32_t ended = index;
  bool well;
  while (!bench_children_ended(&lead->children, &ended, &well, how, sizeof how) && !clock_passed(deadline_ns))
    poll(NULL, 0, 1);
  // If several have ended: the first one that is found.
  rank = ended == index ? rank : lead->board->first_rank + (int32_t)ended;
  snprintf(error, sizeof error, "rank %d died: its process %d %s", rank, (int)lead->children.list[ended].pid, how);
  round->err = 0;
  note_failure(round, WEFT_ERR_PEER_LOST, rank, error);
  round->reason_ns = clock_ns();
}

static void note_answer(struct round *round, uint32_t index) {
  const struct bench_ep_result *result = &round->lead->board->rank[index].result;
  int32_t rank = round->lead->board->first_rank + (int32_t)index;
  char error[FAIL_DETAIL_SIZE];
  round->has_answered[index] = true;
  round->answered++;
  if (!result->err)
    return;
  snprintf(error, sizeof error, "rank %d: %s", rank, result->error);
  note_failure(round, result->err, -1, error);
}

static void receive_answer(struct round *round, uint32_t index) {
  char byte;
  ssize_t got;
  do
    got = recv(round->lead->children.list[index].socket, &byte, 1, MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  if (got == 1)
    note_answer(round, index);
  else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
    note_death(round, index);
}

static int send_command(struct round *round, const struct bench_ep_command *command) {
  struct bench_ep_lead *lead = round->lead;
  for (uint32_t i = 0; i < round->count; i++) {
    atomic_store(&lead->board->rank[i].done, 0);
    if (send(lead->children.list[i].socket, command, sizeof *command, MSG_NOSIGNAL) != sizeof *command) {
      note_death(round, i);
      return fail(round->err, "%s", round->error);
    }
  }
  return 0;
}

// Shows the progress of the slowest rank. The time limit for all begins again when any rank has made progress.
static void look_at_progress(struct round *round) {
  struct bench_ep_lead *lead = round->lead;
  uint32_t least = UINT32_MAX, of = lead->config->warmup + lead->config->iterations;
  uint64_t sum = round->answered;
  for (uint32_t i = 0; i < round->count; i++) {
    uint32_t done = atomic_load_explicit(&lead->board->rank[i].done, memory_order_relaxed);
    least = done < least ? done : least;
    sum += done;
  }
  if (sum != round->progress || round->still_ns == 0) {
    uint64_t wait_limit_ms = (lead->config->common.startup_timeout_s + WAIT_LIMIT_S) * UINT64_C(1000);
    round->still_ns = clock_deadline_ms(wait_limit_ms + 8 * (uint64_t)lead->config->common.timeout_ms);
  }
  round->progress = sum;
  if (lead->watch.progress)
    lead->watch.progress(lead->watch.arg, least, of);
}

// The first rank that has not answered; -1 if all have.
static int32_t silent(const struct round *round) {
  for (uint32_t i = 0; i < round->count; i++)
    if (!round->has_answered[i])
      return round->lead->board->first_rank + (int32_t)i;
  return -1;
}

// Looks for signals, failures and passed deadlines. True: the measurement has to end without the ranks that have not
// answered.
static bool look_around(struct round *round) {
  struct bench_ep_lead *lead = round->lead;
  char error[160];
  look_at_progress(round);
  if (stop_came() && round->ending_ns == CLOCK_NEVER) {
    atomic_store(&lead->board->stop, true);
    round->ending_ns = clock_deadline_ms(ENDING_MS);
  }
  bool doubtful = round->err == WEFT_ERR_PEER_LOST || round->err == WEFT_ERR_TIMEOUT;
  int err = !round->err || doubtful ? lead->watch.failed(lead->watch.arg) : 0;
  if (err) {
    note_failure(round, err, lead->lost, weft_last_error());
    round->reason_ns = clock_ns();
  }
  if (clock_passed(round->ending_ns)) {
    note_failure(round, WEFT_ERR_CANCELED, silent(round), "interrupted; the running operation did not end in time");
    return true;
  }
  if (clock_passed(round->still_ns)) {
    snprintf(error, sizeof error, "rank %d did not answer or make progress within its time limits", silent(round));
    note_failure(round, WEFT_ERR_TIMEOUT, silent(round), error);
    return true;
  }
  return clock_passed(round->reason_ns);
}

// Waits a moment for answers, and for the end of any rank, even if that rank takes no part.
static void listen_to_all(struct round *round) {
  const struct bench_ep_lead *lead = round->lead;
  struct pollfd ready[BENCH_EP_MAX_RANKS];
  uint32_t count = lead->children.count;
  for (uint32_t i = 0; i < count; i++)
    ready[i] = (struct pollfd){.fd = i < round->count && round->has_answered[i] ? -1 : lead->children.list[i].socket,
                               .events = i < round->count ? POLLIN : POLLRDHUP};
  if (poll(ready, count, LOOK_MS) <= 0)
    return;
  for (uint32_t i = 0; i < count; i++)
    if (ready[i].revents && i < round->count)
      receive_answer(round, i);
    else if (ready[i].revents)
      note_death(round, i);
}

int bench_ep_lead_measure(struct bench_ep_lead *lead, const struct bench_ep_command *command) {
  struct round round = {.lead = lead,
                        .count = bench_ep_lead_takes(lead, &lead->sweep->points[command->point]),
                        .reason_ns = CLOCK_NEVER,
                        .ending_ns = CLOCK_NEVER};
  int err = send_command(&round, command);
  if (err)
    return err;
  while (round.answered < round.count && !look_around(&round))
    listen_to_all(&round);
  return round.err ? fail(round.err, "%s", round.error) : 0;
}
