// SIGKILL during a transition: at each step of the handshake, on either side, and around the proposal of a view. The
// other ranks go on, agree on a view without the dead rank, and admit its next incarnation.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/engine.h"
#include "ep/support/processes.h"
#include "ep/view/support/fault_point.h"

enum {
  FOUNDERS = 4,
  JOINER = 4,
  NEXT_LIFE = 5,
  CAPACITY = 5,
  DEADLINE_MS = 60000,
  BEFORE = 10,
  AFTER = 10,
  LEASE_S = 5
};

enum event {
  JOIN,  // of rank 4
  LEAVE, // of the doomed
  DEATH, // of rank 3, in a dispatch
};

// Where the doomed rank is killed.
enum step {
  BEFORE_MESSAGE, // of a handshake message that it sends
  AFTER_MESSAGE,
  BEFORE_LINK, // the peer's windows are mapped, the link is not known yet
  AFTER_LINK,
  BEFORE_PROPOSAL, // its transaction does not go out
  AFTER_PROPOSAL,  // it does
  WITH_PROPOSAL,   // of rank 0, which goes out when the doomed is known to be dead
};

struct fault_scenario {
  enum event event;
  int32_t doomed;
  enum step step;
};

// In shared memory.
struct board {
  _Atomic uint32_t running;   // founders that are active
  _Atomic uint32_t proposing; // rank 0 is about to
  _Atomic uint32_t recovered; // survivors that have run a while without the dead
  _Atomic uint32_t dying;     // bit r: rank r is about to be killed
};

static struct board *board;
static const struct fault_scenario *current;
static struct rank *_Atomic self;    // NULL: this process is not doomed, or its time has not come
static struct rank *_Atomic leading; // rank 0, when it has to hold its proposal
static _Atomic bool following;       // lets the doomed go first

static void die_at(enum step step) {
  if (!self || current->step != step)
    return;
  board->dying |= 1u << current->doomed;
  kill(getpid(), SIGKILL);
}

ssize_t __real_sendmsg(int socket, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int socket, const struct msghdr *message, int flags);
int __real_ep_link_install(weft_ep_t *ep, struct ep_link *link);
int __wrap_ep_link_install(weft_ep_t *ep, struct ep_link *link);
int __real_weft_store_txn_commit(weft_store_t *store, const struct weft_store_txn *txn,
                                 struct weft_store_txn_result **result);
int __wrap_weft_store_txn_commit(weft_store_t *store, const struct weft_store_txn *txn,
                                 struct weft_store_txn_result **result);

ssize_t __wrap_sendmsg(int socket, const struct msghdr *message, int flags) {
  die_at(BEFORE_MESSAGE);
  ssize_t sent = __real_sendmsg(socket, message, flags);
  die_at(AFTER_MESSAGE);
  return sent;
}

int __wrap_ep_link_install(weft_ep_t *ep, struct ep_link *link) {
  die_at(BEFORE_LINK);
  int err = __real_ep_link_install(ep, link);
  die_at(AFTER_LINK);
  return err;
}

static bool is_dead(weft_ep_t *ep, int32_t rank) {
  pthread_mutex_lock(&ep->links.lock); // a link in the table is not freed then
  struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
  bool dead = !link || !ep_link_up(link);
  pthread_mutex_unlock(&ep->links.lock);
  return dead;
}

int __wrap_weft_store_txn_commit(weft_store_t *store, const struct weft_store_txn *txn,
                                 struct weft_store_txn_result **result) {
  bool of_view = txn->num_success > 0 && strstr(txn->success[0].key, "/view") != NULL;
  if (!of_view)
    return __real_weft_store_txn_commit(store, txn, result);
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  bool armed = self; // by now: of the founding, the answer may come when its view has come already
  while (following && !board->dying && !clock_passed(deadline))
    poll(NULL, 0, 1);
  if (leading)
    board->proposing = 1;
  while (leading && !is_dead(leading->ep, current->doomed) && !clock_passed(deadline))
    poll(NULL, 0, 1);
  leading = NULL;
  if (armed)
    die_at(BEFORE_PROPOSAL);
  int err = __real_weft_store_txn_commit(store, txn, result);
  if (armed)
    die_at(AFTER_PROPOSAL);
  return err;
}

static void *die_with_proposal(void *arg) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  (void)arg;
  while (!board->proposing && !clock_passed(deadline))
    poll(NULL, 0, 1);
  die_at(WITH_PROPOSAL);
  return NULL;
}

// --- lives ---

static bool dies(int32_t rank) {
  return rank == current->doomed || (current->event == DEATH && rank == FOUNDERS - 1);
}

static uint32_t num_survivors(void) {
  uint32_t count = 0;
  for (int32_t r = 0; r < FOUNDERS; r++)
    count += !dies(r);
  return count;
}

static bool await_count(const _Atomic uint32_t *word, uint32_t count) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (*word < count && !clock_passed(deadline))
    poll(NULL, 0, 1);
  return *word >= count;
}

// After two deaths survivors may end one operation in different views, and report each other's rows as lost in it
// (docs/design/membership.md, Activation).
static bool may_miss_the_living(uint32_t *missed) {
  return current->event == DEATH && ++*missed == 1;
}

static bool lost_only_the_dead(struct rank *rank) {
  static uint32_t missed; // operations in which this rank lost one that lives
  for (uint32_t i = 0; i < rank->info.num_lost; i++)
    if (!dies(rank->lost[i]))
      return may_miss_the_living(&missed) || rank_fail(rank, "rank %d, which lives, was lost", rank->lost[i]);
  for (uint32_t i = 0; i < rank->result.num_missing; i++)
    if (!dies((int32_t)(rank->missing[i].expert / rank->setup.experts)))
      return may_miss_the_living(&missed) ||
             rank_fail(rank, "expert %lld, which lives, is missing", (long long)rank->missing[i].expert);
  return true;
}

// Operates until it has run a while in a view in which rank r is as bit r says.
static bool settle(struct rank *rank, uint32_t members) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  for (uint32_t after = 0; after < AFTER;) {
    if (clock_passed(deadline))
      return rank_fail(rank, "the view of ranks 0x%x did not come", members);
    if (!rank_operate(rank) || !lost_only_the_dead(rank))
      return false;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < rank->num_view; i++)
      seen |= 1u << rank->view[i];
    after += seen == members;
  }
  return true;
}

static uint32_t last_view(void) {
  uint32_t members = (1u << FOUNDERS) - 1;
  if (current->event == JOIN)
    members |= 1u << JOINER;
  if (current->event == DEATH && current->doomed != FOUNDERS - 1)
    members &= ~(1u << (FOUNDERS - 1)); // one next life is enough to show
  return members;
}

static void doom(struct rank *rank) {
  pthread_t thread;
  self = rank;
  if (current->step == WITH_PROPOSAL && pthread_create(&thread, NULL, die_with_proposal, NULL) == 0)
    pthread_detach(thread);
}

static void die(struct rank *rank) {
  (void)rank;
  kill(getpid(), SIGKILL);
}

static bool survive(struct rank *rank) {
  uint32_t members = (1u << FOUNDERS) - 1;
  for (int32_t r = 0; r < FOUNDERS; r++)
    members &= ~(dies(r) ? 1u << r : 0);
  // A joiner may be let in while the death of the doomed is still to be found out, or be the doomed.
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (!board->dying && !clock_passed(deadline))
    if (!rank_operate(rank) || !lost_only_the_dead(rank))
      return false;
  if (current->event == JOIN && current->doomed != JOINER)
    members |= 1u << JOINER;
  if (!settle(rank, members))
    return false;
  board->recovered++;
  return settle(rank, last_view()) && rank_end_together(rank);
}

static bool found(struct rank *rank) {
  static const int32_t founders[FOUNDERS] = {0, 1, 2, 3};
  if (!rank_open(rank, &rank->setup, rank->index, founders, FOUNDERS) || !rank_activate(rank))
    return false;
  // Set before anybody can die: that takes some operations, in which all take part.
  if (current->step == WITH_PROPOSAL && rank->index == 0)
    leading = rank;
  // Rank 0 proposes a death at once, the others a moment later: on a busy machine they may be first.
  following = current->event == DEATH && rank->index != 0;
  if (rank->index == current->doomed && current->event == DEATH)
    doom(rank);
  if (!rank_operate_n(rank, BEFORE))
    return false;
  if (rank->index == current->doomed && current->event != DEATH) // by now the founders' own handshakes are over
    doom(rank);
  board->running++;
  if (current->event == DEATH && rank->index == FOUNDERS - 1)
    place_arm(rank, PLACE_DISPATCH_ROWS, die);
  if (current->event == LEAVE && rank->index == current->doomed)
    weft_ep_disconnect(rank->ep, &rank->index, 1, DEADLINE_MS);
  return survive(rank); // the doomed does not
}

static bool live(struct rank *rank, void *arg) {
  int32_t process = rank->index;
  (void)arg;
  if (process < FOUNDERS)
    return found(rank);
  if (process == JOINER && current->event != JOIN)
    return true; // it has nobody to be
  if (process == NEXT_LIFE && !await_count(&board->recovered, num_survivors()))
    return rank_fail(rank, "the others did not go on without rank %d", current->doomed);
  if (process == JOINER && !await_count(&board->running, FOUNDERS))
    return rank_fail(rank, "the founders did not come");
  bool next_life = process == NEXT_LIFE;
  if (!rank_open(rank, &rank->setup, next_life ? current->doomed : JOINER, NULL, 0))
    return false;
  if (!next_life && current->doomed == JOINER)
    doom(rank);
  return rank_activate(rank) && (!next_life || settle(rank, last_view())) && rank_end_together(rank);
}

static void run_scenario(struct fault_scenario scenario) {
  struct processes processes;
  current = &scenario;
  board = processes_share(sizeof *board);
  processes_start(&processes, 6,
                  &(struct setup){.capacity = CAPACITY,
                                  .lease_s = scenario.event == JOIN ? LEASE_S : 0,
                                  .apart = true,
                                  .at = place_reach,
                                  .deaths = true},
                  live, NULL);
  bool good = true;
  for (int32_t i = 0; i < 6; i++)
    good &= processes_expect(&processes, (uint32_t)i, i == current->doomed || (i < FOUNDERS && dies(i)) ? SIGKILL : 0);
  processes_end(&processes);
  assert_true(good);
}

#define SCENARIO(name, ...)                                                                                            \
  static void name(void **state) {                                                                                     \
    (void)state;                                                                                                       \
    run_scenario((struct fault_scenario){__VA_ARGS__});                                                                \
  }

SCENARIO(a_joiner_dies_before_its_call, JOIN, JOINER, BEFORE_MESSAGE)
SCENARIO(a_joiner_dies_when_it_has_called, JOIN, JOINER, AFTER_MESSAGE)
SCENARIO(a_joiner_dies_when_it_is_answered, JOIN, JOINER, BEFORE_LINK)
SCENARIO(a_joiner_dies_with_one_link_of_several, JOIN, JOINER, AFTER_LINK)
SCENARIO(a_called_rank_dies_when_it_has_received_the_call, JOIN, 1, BEFORE_LINK)
SCENARIO(a_called_rank_dies_with_the_link_made, JOIN, 1, AFTER_LINK)
SCENARIO(a_called_rank_dies_before_it_answers, JOIN, 2, BEFORE_MESSAGE)
SCENARIO(a_called_rank_dies_when_it_has_answered, JOIN, 2, AFTER_MESSAGE)
SCENARIO(a_joiner_dies_before_it_proposes, JOIN, JOINER, BEFORE_PROPOSAL)
SCENARIO(a_joiner_dies_when_it_has_proposed, JOIN, JOINER, AFTER_PROPOSAL)
SCENARIO(a_leaver_dies_before_it_proposes, LEAVE, 2, BEFORE_PROPOSAL)
SCENARIO(a_leaver_dies_when_it_has_proposed, LEAVE, 2, AFTER_PROPOSAL)
SCENARIO(the_leading_leaver_dies_when_it_has_proposed, LEAVE, 0, AFTER_PROPOSAL)
SCENARIO(the_leader_dies_before_it_proposes_a_death, DEATH, 0, BEFORE_PROPOSAL)
SCENARIO(the_leader_dies_when_it_has_proposed_a_death, DEATH, 0, AFTER_PROPOSAL)
SCENARIO(a_survivor_dies_while_a_death_is_agreed_on, DEATH, 1, WITH_PROPOSAL)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_joiner_dies_before_its_call),
      cmocka_unit_test(a_joiner_dies_when_it_has_called),
      cmocka_unit_test(a_joiner_dies_when_it_is_answered),
      cmocka_unit_test(a_joiner_dies_with_one_link_of_several),
      cmocka_unit_test(a_called_rank_dies_when_it_has_received_the_call),
      cmocka_unit_test(a_called_rank_dies_with_the_link_made),
      cmocka_unit_test(a_called_rank_dies_before_it_answers),
      cmocka_unit_test(a_called_rank_dies_when_it_has_answered),
      cmocka_unit_test(a_joiner_dies_before_it_proposes),
      cmocka_unit_test(a_joiner_dies_when_it_has_proposed),
      cmocka_unit_test(a_leaver_dies_before_it_proposes),
      cmocka_unit_test(a_leaver_dies_when_it_has_proposed),
      cmocka_unit_test(the_leading_leaver_dies_when_it_has_proposed),
      cmocka_unit_test(the_leader_dies_before_it_proposes_a_death),
      cmocka_unit_test(the_leader_dies_when_it_has_proposed_a_death),
      cmocka_unit_test(a_survivor_dies_while_a_death_is_agreed_on),
  };
  return cmocka_run_group_tests_name("ep_kill_in_transition", tests, NULL, NULL);
}
