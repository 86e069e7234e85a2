// Ranks on CUDA memory, on a plug-in without a GPU, whose calls have next to no time, and that call again: they come
// and go while others launch operations, and while the results of their own are still awaited. Some give up and close.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "ep/gpu/support/fake_ranks.h"

#include "base/random.h"
#include "ep/support/insist.h"
#include "support/sanitized.h"

enum { VISITORS = 3, RANKS = 1 + VISITORS, VISITS = SUPPORT_SANITIZED ? 8 : 20, LOG = 1 << 15, BARRIER = 5 };

// An operation that a rank has taken part in, and the ranks that it missed.
struct took_part {
  uint64_t op, epoch;
  uint32_t lost; // a bit for each rank
};

struct guest {
  struct insister insister;
  int32_t index;
  pthread_t thread;
  uint32_t given_up, taken; // visits; changes
  uint32_t logged;
  struct took_part log[LOG];
  bool failed;
};

static atomic_bool over;

// Prints at once: others wait for this rank now.
static bool fail_guest(struct guest *guest, const char *what, int rc) {
  guest->failed = true;
  print_error("rank %d: %s: %s: %s\n", guest->index, what, weft_err_name(rc), weft_last_error());
  return false;
}

static uint32_t draw(struct guest *guest, uint32_t below) {
  return (uint32_t)(random_next(&guest->insister.random) % below);
}

// --- operations ---

// Of the operations that it has not run alone the log has the newest.
static void log_info(struct guest *guest, const struct weft_ep_info *info) {
  if (info->num_ranks == 1)
    return;
  struct took_part *entry = &guest->log[guest->logged++ % LOG];
  *entry = (struct took_part){.op = info->op, .epoch = info->epoch};
  for (uint32_t i = 0; i < info->num_lost; i++)
    entry->lost |= 1u << info->lost[i];
}

// An interrupted wait leaves the launch as it is.
static bool await(struct guest *guest, uint64_t op) {
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  int32_t lost[RANKS];
  info.lost = lost;
  info.lost_cap = RANKS;
  int rc;
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  do {
    if (draw(guest, 16) == 0)
      weft_ep_interrupt(guest->insister.ep);
    rc = weft_ep_await(guest->insister.ep, op, &info, NULL, draw(guest, 3));
  } while ((rc == WEFT_ERR_TIMEOUT || rc == WEFT_ERR_CANCELED) && !clock_passed(deadline_ns));
  if (rc != 0)
    return fail_guest(guest, "weft_ep_await", rc);
  log_info(guest, &info);
  return true;
}

static bool launch(struct guest *guest, uint64_t *op) {
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  int rc = weft_ep_dispatch(guest->insister.ep, &none, fake_no_rows(), NULL, op);
  if (rc == 0)
    rc = weft_ep_combine(guest->insister.ep, *op, &combine, NULL);
  return rc == 0 || fail_guest(guest, "launch", rc);
}

// PEER_LOST: a rank that gave up was in the view already.
static bool meet(struct guest *guest) {
  int rc = weft_ep_barrier(guest->insister.ep);
  return rc == 0 || rc == WEFT_ERR_PEER_LOST || rc == WEFT_ERR_CANCELED || fail_guest(guest, "weft_ep_barrier", rc);
}

// Runs an operation, or two of which the second is launched while the first one runs. All ranks run the same ones as
// barriers.
static bool operate(struct guest *guest) {
  uint64_t first, second, next = weft_ep_next_op(guest->insister.ep);
  if (next % BARRIER == 0)
    return meet(guest);
  bool both = (next + 1) % BARRIER != 0 && draw(guest, 2);
  if (!launch(guest, &first) || (both && weft_ep_is_active(guest->insister.ep) && !launch(guest, &second)))
    return false;
  return await(guest, first);
}

// --- ranks ---

static bool visit(struct guest *guest) {
  struct weft_ep_options options = fake_options(guest->index, NULL, 0);
  bool gave_up;
  int rc = weft_ep_open(&guest->insister.ep, &options, DEADLINE_MS);
  if (rc != 0)
    return fail_guest(guest, "weft_ep_open", rc);
  rc = insist_on_coming(&guest->insister, &gave_up);
  if (rc != 0)
    return fail_guest(guest, "to come", rc);
  guest->given_up += gave_up;
  if (gave_up)
    return true;
  for (uint32_t i = draw(guest, 6); i > 0; i--)
    if (!operate(guest))
      return false;
  rc = insist_on_leaving(&guest->insister);
  if (rc != 0)
    return fail_guest(guest, "to leave", rc);
  while (weft_ep_is_active(guest->insister.ep))
    if (!operate(guest))
      return false;
  return true;
}

static void *come_and_go(void *arg) {
  struct guest *guest = arg;
  bool good = true;
  for (uint32_t i = 0; i < VISITS && good; i++) {
    good = visit(guest);
    weft_ep_close(guest->insister.ep);
    guest->insister.ep = NULL;
  }
  return NULL;
}

static void *stay(void *arg) {
  struct guest *host = arg;
  int rc = 0;
  while (!atomic_load(&over) && rc == 0 && operate(host))
    rc = insist_on_another(&host->insister, 1 + (int32_t)draw(host, VISITORS), &host->taken);
  if (rc != 0)
    fail_guest(host, "weft_ep_change", rc);
  return NULL;
}

// --- the test ---

static uint32_t kept(const struct guest *guest) {
  return guest->logged < LOG ? guest->logged : LOG;
}

static const struct took_part *find(const struct guest *guest, const struct took_part *like) {
  for (uint32_t i = 0; i < kept(guest); i++)
    if (guest->log[i].op == like->op && guest->log[i].epoch == like->epoch)
      return &guest->log[i];
  return NULL;
}

static void print_log(const struct guest *guest, uint64_t op) {
  for (uint32_t i = 0; i < kept(guest); i++)
    if (guest->log[i].op + 8 > op && guest->log[i].op < op + 8)
      print_message("rank %d: operation %llu of epoch %llu, without ranks %#x\n", guest->index,
                    (unsigned long long)guest->log[i].op, (unsigned long long)guest->log[i].epoch, guest->log[i].lost);
}

// If a rank has missed another one that has taken part, that one has missed it, too: their link was down.
static void judge(const struct guest *guests) {
  for (int r = 0; r < RANKS; r++)
    for (uint32_t i = 0; i < kept(&guests[r]); i++)
      for (int other = 0; other < RANKS; other++) {
        const struct took_part *entry = &guests[r].log[i], *theirs = find(&guests[other], entry);
        if (!(entry->lost >> other & 1) || !theirs || (theirs->lost >> r & 1))
          continue;
        for (int g = 0; g < RANKS; g++)
          print_log(&guests[g], entry->op);
        fail_msg("operation %llu of epoch %llu: rank %d missed rank %d, which has had its rows",
                 (unsigned long long)entry->op, (unsigned long long)entry->epoch, r, other);
      }
}

static void calls_that_are_made_again_and_again_come_to_their_end(void **state) {
  (void)state;
  static struct guest guests[RANKS];
  uint64_t seed = random_id();
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int32_t i = 0; i < RANKS; i++) {
    guests[i].index = i;
    guests[i].insister.random = random_mix(seed + (uint64_t)i);
  }
  guests[0].insister.ep = fake_open(fake_options(0, NULL, 0));
  assert_ok(weft_ep_activate(guests[0].insister.ep, DEADLINE_MS));
  for (int i = 0; i < RANKS; i++)
    assert_int_equal(pthread_create(&guests[i].thread, NULL, i ? come_and_go : stay, &guests[i]), 0);
  uint32_t calls = 0, timeouts = 0, given_up = 0;
  for (int i = 1; i < RANKS; i++) {
    pthread_join(guests[i].thread, NULL);
    calls += guests[i].insister.calls;
    timeouts += guests[i].insister.timeouts;
    given_up += guests[i].given_up;
  }
  atomic_store(&over, true);
  pthread_join(guests[0].thread, NULL);
  weft_ep_close(guests[0].insister.ep);
  print_message("%u calls, of which %u had no time; %u visits were given up; rank 0 found %u visitors in the view, and "
                "ran %u operations with others\n",
                calls, timeouts, given_up, guests[0].taken, guests[0].logged);
  bool failed = false;
  for (int i = 0; i < RANKS; i++)
    failed |= guests[i].failed;
  assert_false(failed);
  assert_true(timeouts > 0);
  judge(guests);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
      calls_that_are_made_again_and_again_come_to_their_end, fake_open_store, fake_close_store)};
  return cmocka_run_group_tests_name("ep_fake_impatient", tests, NULL, NULL);
}
