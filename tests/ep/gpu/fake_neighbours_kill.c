// SIGKILL of a rank whose windows a neighbour reads, on CUDA memory without a GPU: the data that was sent to it stays
// readable as long as a view needs its link, and then all ranks unmap the windows. Ranks are processes on two declared
// hosts.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/gpu/gpu.h"
#include "ep/gpu/remote/sharers.h"
#include "ep/remote/neighbours.h"
#include "ep/support/processes.h"

enum { RANKS = 4, CARRIER = 3, READER = 1, DEADLINE_MS = 60000, LETTER = 'w' };

static struct processes processes;

static struct ep_link *link_to(const struct rank *rank, int32_t peer) {
  return atomic_load(&rank->ep->links.by_rank[peer]);
}

static uint32_t groups(const struct rank *rank) {
  struct ep_net *net = atomic_load(&rank->ep->net);
  ep_net_lock(net);
  uint32_t count = ep_sharers_find(net)->count;
  ep_net_unlock(net);
  return count;
}

// The last byte of the neighbour's window that the source writes; -1: it is not mapped.
static int last_byte(const struct rank *rank, int32_t source) {
  pthread_mutex_lock(&rank->ep->links.lock);
  const struct ep_neighbour_area *area = atomic_load(&rank->ep->links.areas);
  while (area && area->source != source)
    area = area->next;
  int byte = area ? ((const uint8_t *)area->window.memory)[rank->ep->gpu->area_bytes - 1] : -1;
  pthread_mutex_unlock(&rank->ep->links.lock);
  return byte;
}

static bool reads(const struct rank *rank, int32_t source) {
  return last_byte(rank, source) >= 0;
}

static bool operate(struct rank *rank) {
  static int32_t counts[2];
  struct weft_ep_recv_args recv = {.size = sizeof recv, .counts = counts};
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  uint64_t op;
  if (weft_ep_dispatch(rank->ep, &none, &recv, &rank->info, &op) != 0 ||
      weft_ep_combine(rank->ep, op, &combine, NULL) != 0)
    return rank_fail(rank, "operation: %s", weft_last_error());
  return true;
}

// Each rank shares its windows with one neighbour, and is the source of two that share.
static bool knows_all(struct rank *rank) {
  return groups(rank) == 1 && reads(rank, (rank->index + 1) % RANKS) && reads(rank, (rank->index + 3) % RANKS);
}

static bool open_rank(struct rank *rank) {
  static const int32_t founders[] = {0, 1, 2, 3};
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = rank->setup.store;
  options.prefix = RANK_PREFIX;
  options.rank = rank->index;
  options.capacity = RANKS;
  options.founders = founders;
  options.num_founders = RANKS;
  options.hidden = 1024; // rows that are worth sharing
  options.max_tokens = 4;
  options.op_timeout_ms = DEADLINE_MS;
  options.memory = WEFT_EP_MEMORY_CUDA;
  options.mode = WEFT_EP_THROUGHPUT;
  options.host_id = rank->index % 2 ? "odd" : "even";
  rank->info = (struct weft_ep_info){.size = sizeof rank->info, .lost = rank->lost, .lost_cap = 16};
  return (weft_ep_open(&rank->ep, &options, DEADLINE_MS) == 0 && weft_ep_activate(rank->ep, DEADLINE_MS) == 0) ||
         rank_fail(rank, "open: %s", weft_last_error());
}

// Writes to the end of the windows that it reads, where no row comes yet, and dies.
static void die(struct rank *rank, struct meeting *meeting) {
  for (int32_t source = 0; source < CARRIER; source += 2) {
    char *window = link_to(rank, source)->device.host_in;
    window[rank->ep->gpu->area_bytes - 1] = LETTER;
  }
  meeting_wait(meeting, rank, RANKS, 2);
  kill(getpid(), SIGKILL);
}

// The window of the dead rank can be read before the others run without it.
static bool read_of_the_dead(struct rank *rank) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  while (ep_link_up(link_to(rank, CARRIER)))
    if (poll(NULL, 0, 1), clock_passed(deadline_ns))
      return rank_fail(rank, "the death is not reported");
  if (last_byte(rank, 0) != LETTER)
    return rank_fail(rank, "the window of the dead rank has gone");
  return true;
}

// Those of the dead rank's host share nothing any more; the others do, and are sources no more of two.
static bool has_let_go(struct rank *rank) {
  bool reader = rank->index == READER;
  return rank->info.num_ranks == RANKS - 1 && !link_to(rank, CARRIER) && groups(rank) == reader &&
         !(reader ? reads(rank, 0) || reads(rank, 2) : reads(rank, CARRIER));
}

static bool live(struct rank *rank, void *arg) {
  struct meeting *meeting = arg;
  if (!open_rank(rank))
    return false;
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  while (!knows_all(rank))
    if (poll(NULL, 0, 1), clock_passed(deadline_ns))
      return rank_fail(rank, "it knows of %u groups", groups(rank));
  if (!meeting_wait(meeting, rank, RANKS, 1))
    return false;
  if (rank->index == CARRIER)
    die(rank, meeting);
  if (!meeting_wait(meeting, rank, RANKS, 2) || (rank->index == READER && !read_of_the_dead(rank)))
    return false;
  for (bool out = false; meeting->came < 3 * RANKS - 1;) { // the others operate until all are there
    if (!operate(rank))
      return false;
    if (!out && has_let_go(rank)) {
      out = true;
      meeting->came++;
    }
    if (clock_passed(deadline_ns))
      return rank_fail(rank, "%u ranks, %u groups", rank->info.num_ranks, groups(rank));
  }
  weft_ep_close(rank->ep);
  rank->ep = NULL;
  return true;
}

static void windows_of_a_killed_rank_are_let_go_of(void **state) {
  (void)state;
  const struct setup setup = {0};
  struct meeting *meeting = processes_share(sizeof *meeting);
  processes_start(&processes, RANKS, &setup, live, meeting);
  bool good = processes_expect(&processes, CARRIER, SIGKILL);
  for (uint32_t i = 0; i < CARRIER; i++)
    good &= processes_expect(&processes, i, 0);
  processes_end(&processes);
  assert_true(good);
}

int main(void) {
  setenv("WEFT_EP_TRANSPORT", "shm", 1);
  setenv("WEFT_ADDRESS", "127.0.0.1", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(windows_of_a_killed_rank_are_let_go_of)};
  return cmocka_run_group_tests_name("ep_fake_neighbours_kill", tests, NULL, NULL);
}
