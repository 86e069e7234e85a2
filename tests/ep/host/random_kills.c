// Ranks are killed during random operations, some of them by routes: a process dies at a random moment of a dispatch or
// a combine whose rows are sent in pieces. Rows that the others received from it must be right, missing rows must be
// empty or listed as missing, and all operations before and after must be complete. The oracle checks every number.
//
//   WEFT_TEST_KILLS=N kills; WEFT_SEED=N repeats the random choices.
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "ep/host/support/member.h"
#include "ep/support/processes.h"
#include "support/emulated.h"

enum { KILLS = 24, KILLS_WHEN_SLOW = 6, RANKS = 4, OPERATIONS_AFTER = 8, SEED = 41 };

enum { MEETINGS = 64, MEETING_MS = 50 };

// What the processes of a group share.
struct scene {
  struct drawn_group group;
  uint64_t kill_at; // the operation,
  bool in_combine;  // and the half of it
  double moment;    // of the half's time, as the last one took
  _Atomic bool dead;
  _Atomic uint32_t came[MEETINGS][2]; // ranks that have come to an operation, and its half
  _Atomic uint64_t judged, unjudged, broken[2];
};

// Lets the ranks begin a half together, so that a death in the midst of it finds the others there; but for some that
// are late, and those that wait in vain when one is dead.
static void meet(struct scene *scene, const struct member *m, bool combines) {
  uint64_t deadline = clock_deadline_ms(MEETING_MS);
  if (m->number >= MEETINGS)
    return;
  atomic_fetch_add(&scene->came[m->number][combines], 1);
  while (atomic_load(&scene->came[m->number][combines]) < RANKS && !atomic_load(&scene->dead) &&
         !clock_passed(deadline))
    sched_yield();
}

// The victim dies by a timer, whose signal ends the process on the spot.
static void before_half(struct member *m, bool combines) {
  struct scene *scene = m->before_arg;
  meet(scene, m, combines);
  if (m->rank != m->group->victim || m->number < scene->kill_at || combines != scene->in_combine)
    return;
  uint64_t us = 1 + (uint64_t)(scene->moment * (double)m->half_ns[combines] / 1000);
  struct itimerval timer = {.it_value = {.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)}};
  signal(SIGALRM, SIG_DFL);
  setitimer(ITIMER_REAL, &timer, NULL);
}

static bool live(struct rank *rank, void *arg) {
  struct scene *scene = arg;
  struct member *m = calloc(1, sizeof *m);
  struct drawn_group own = scene->group;
  own.store = rank->setup.store;
  bool ok = m && member_open(m, &own, rank->index, true);
  if (ok) {
    m->before = before_half;
    m->before_arg = scene;
  }
  uint32_t after = 0;
  while (ok && m->info.mark < 1) {
    if (atomic_load(&scene->dead) && ++after > OPERATIONS_AFTER)
      weft_ep_set_mark(m->ep, 1);
    ok = member_operate(m);
  }
  atomic_fetch_add(&scene->judged, m->judged);
  atomic_fetch_add(&scene->unjudged, m->unjudged);
  for (int half = 0; half < 2; half++)
    atomic_fetch_add(&scene->broken[half], m->broken[half]);
  if (!ok)
    rank_fail(rank, "%s", m->error);
  member_close(m);
  free(m);
  return ok;
}

static void draw_scene(struct scene *scene, uint64_t *random, enum weft_ep_mode mode, uint32_t features) {
  static const uint64_t windows[] = {128 << 10, 512 << 10, 0};
  struct drawn_group *group = &scene->group;
  drawn_group_draw(group, random, features, mode);
  group->num_joiners = 0;
  group->num_founders = RANKS;
  for (int32_t i = 0; i < RANKS; i++)
    group->founders[i] = i;
  group->tokens = group->pattern.num_tokens = mode == WEFT_EP_THROUGHPUT ? 200 : 40; // many pieces
  group->hidden = group->pattern.hidden = 512;
  group->experts = group->pattern.experts_per_rank = 1 + (uint32_t)(random_next(random) % 4);
  group->pattern.shape = PATTERN_EVEN;
  group->pattern.uneven = false;
  group->window_bytes = mode == WEFT_EP_THROUGHPUT ? windows[random_next(random) % 3] : 0;
  group->victim = (int32_t)(random_next(random) % RANKS);
  scene->kill_at = 2 + random_next(random) % 6;
  scene->in_combine = random_next(random) % 2;
  scene->moment = (double)(random_next(random) % 1000) / 1000;
  scene->dead = false;
  memset(scene->came, 0, sizeof scene->came);
}

static void kill_one(struct scene *scene) {
  struct processes processes;
  struct setup setup = {0};
  processes_start(&processes, RANKS, &setup, live, scene);
  bool ok = processes_expect(&processes, (uint32_t)scene->group.victim, SIGALRM);
  scene->dead = true;
  for (uint32_t i = 0; i < RANKS; i++)
    ok &= i == (uint32_t)scene->group.victim || processes_expect(&processes, i, 0);
  processes_end(&processes);
  if (!ok)
    fail_msg("rank %d, killed in a %s of operation %" PRIu64 " at %.3f of its time, mode %d, window %" PRIu64,
             scene->group.victim, scene->in_combine ? "combine" : "dispatch", scene->kill_at, scene->moment,
             scene->group.mode, scene->group.window_bytes);
}

static uint64_t setting(const char *name, uint64_t preset) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 0) : preset;
}

static void received_rows_are_right_and_missing_rows_are_reported(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  bool slow = true;
#else
  bool slow = support_emulated();
#endif
  uint64_t kills = setting("WEFT_TEST_KILLS", slow ? KILLS_WHEN_SLOW : KILLS), random = setting("WEFT_SEED", SEED);
  uint32_t features[WEFT_EP_THROUGHPUT + 1];
  bool flows = drawn_probe(WEFT_EP_THROUGHPUT, &features[WEFT_EP_THROUGHPUT]);
  drawn_probe(WEFT_EP_LATENCY, &features[WEFT_EP_LATENCY]);
  print_message("%" PRIu64 " kills, WEFT_SEED=%" PRIu64 "%s\n", kills, random,
                flows ? "" : "; left out: THROUGHPUT, which is UNSUPPORTED");
  struct scene *scene = processes_share(sizeof *scene);
  for (uint64_t i = 0; i < kills; i++) {
    enum weft_ep_mode mode = flows && i % 6 != 0 ? WEFT_EP_THROUGHPUT : WEFT_EP_LATENCY;
    draw_scene(scene, &random, mode, features[mode]);
    kill_one(scene);
  }
  print_message("of single ranks: %" PRIu64 " operations judged, %" PRIu64 " not, since a view came late; a part of a "
                "dispatch came %" PRIu64 " times, of a combine %" PRIu64 "\n",
                scene->judged, scene->unjudged, scene->broken[0], scene->broken[1]);
  assert_true(scene->judged > scene->unjudged);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(received_rows_are_right_and_missing_rows_are_reported)};
  return cmocka_run_group_tests_name("ep_random_kills", tests, NULL, NULL);
}
