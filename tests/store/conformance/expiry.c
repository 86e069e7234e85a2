// Expiring leases on a local store, an embedded server and a real etcd: the same keys are removed, those of one lease
// in one revision, none too early, the shorter lease first. A watch reports the same events, live and from the past. A
// seed decides which lease each key has.
#include "base/random.h"
#include "base/time/clock.h"
#include "conformance/subject.h"
#include "conformance/suite.h"
#include "support/etcd.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  LEASES = 48,
  KEYS = 64,
  CHANGES = 160,
  SHORT_S = 2, // etcd grants nothing shorter
  MIDDLE_S = 5,
  LONG_S = 3600,
  ATTEMPTS = 5,
  BATCH_MS = 700, // etcd looks for leases that have ended every 500 ms; those that it finds end in any order
};

enum fate { FIRST, SECOND, RENEWED, LASTING }; // when it ends: after SHORT_S, MIDDLE_S, a renewal and MIDDLE_S, never

struct lease {
  int64_t id;
  enum fate fate;
  uint64_t not_before_ns; // it may end from here on
};

struct life {
  struct subject *subject;
  struct lease leases[LEASES];
  size_t owner[KEYS]; // lease + 1; 0: none
  bool present[KEYS];
  uint64_t began_ns;
  int64_t first_revision;
  weft_store_watch_t *watch;
  struct support_events events;
  size_t expected; // deletions that have come or will
};

static struct subject subjects[SUBJECTS];

static void name_key(char out[16], size_t key) {
  snprintf(out, 16, "/e/%02zu", key);
}

static int64_t ttl_of(enum fate fate) {
  return fate == FIRST ? SHORT_S : fate == LASTING ? LONG_S : MIDDLE_S;
}

static void grant_all(struct life *life, uint64_t *random) {
  for (size_t i = 0; i < LEASES; i++) {
    struct lease *lease = &life->leases[i];
    int64_t granted;
    lease->fate = (enum fate)(random_next(random) % 4);
    int64_t asked = lease->fate == FIRST && random_next(random) % 2 ? 1 : ttl_of(lease->fate);
    lease->not_before_ns = clock_ns() + (uint64_t)ttl_of(lease->fate) * 1000000000;
    assert_ok(weft_store_lease_grant(life->subject->store, asked, &lease->id, &granted));
    assert_int_equal(granted, ttl_of(lease->fate));
  }
}

// Whether a lease may have run out before all was set up.
static bool is_late(const struct life *life) {
  return clock_ns() - life->began_ns >= (SHORT_S * 1000 - 200) * UINT64_C(1000000);
}

// False: the call found a lease that had run out, which it may have when it is late.
static bool done(const struct life *life, int err, const char *what) {
  if (err && !(err == WEFT_ERR_NOT_FOUND && is_late(life)))
    fail_msg("%s: %s: %s", life->subject->name, what, weft_last_error());
  return err == 0;
}

// Hangs keys on leases, moves them to others, frees them and deletes them.
static bool change_keys(struct life *life, uint64_t *random) {
  char name[16];
  for (int i = 0; i < CHANGES; i++) {
    size_t key = random_next(random) % KEYS;
    size_t owner = random_next(random) % (LEASES + 4);
    name_key(name, key);
    if (random_next(random) % 8 == 0) {
      assert_ok(weft_store_delete(life->subject->store, name, false, NULL));
      life->expected += life->present[key];
      life->present[key] = false;
      continue;
    }
    life->present[key] = true;
    life->owner[key] = owner < LEASES ? owner + 1 : 0;
    int64_t lease = owner < LEASES ? life->leases[owner].id : 0;
    if (!done(life, weft_store_put(life->subject->store, name, "x", 1, lease, NULL), "put"))
      return false;
  }
  return true;
}

// Ends one lease in eight by hand.
static bool revoke_some(struct life *life, uint64_t *random) {
  for (size_t i = 0; i < LEASES; i++) {
    if (random_next(random) % 8)
      continue;
    if (!done(life, weft_store_lease_revoke(life->subject->store, life->leases[i].id), "revoke"))
      return false;
    for (size_t k = 0; k < KEYS; k++)
      if (life->present[k] && life->owner[k] == i + 1) {
        life->expected++;
        life->present[k] = false;
      }
  }
  return true;
}

static void close_life(struct life *life) {
  weft_store_watch_close(life->watch);
  support_events_free(&life->events);
  for (size_t i = 0; i < LEASES; i++)
    weft_store_lease_revoke(life->subject->store, life->leases[i].id); // most are gone
}

// False: it took so long that a lease may have run out in between.
static bool set_up(struct life *life, struct subject *subject, uint64_t seed) {
  uint64_t random = seed;
  *life = (struct life){.subject = subject};
  support_events_init(&life->events);
  subject_begin(subject);
  life->first_revision = subject->base + 1;
  assert_ok(weft_store_watch_open(subject->store, "/e/", life->first_revision, support_events_take, &life->events,
                                  &life->watch));
  life->began_ns = clock_ns();
  grant_all(life, &random);
  if (change_keys(life, &random) && revoke_some(life, &random) && !is_late(life))
    return true;
  close_life(life);
  return false;
}

static bool goes(const struct life *life, size_t key, enum fate fate) {
  return life->present[key] && life->owner[key] && life->leases[life->owner[key] - 1].fate == fate;
}

// Waits until the keys of this fate's leases have gone.
static void await(struct life *life, enum fate fate) {
  for (size_t k = 0; k < KEYS; k++)
    life->expected += goes(life, k, fate);
  if (!support_events_wait(&life->events, WEFT_STORE_EVENT_DELETE, life->expected))
    fail_msg("%s: keys of leases that have ended are not all gone", life->subject->name);
}

static bool renew(struct life *life) {
  for (size_t i = 0; i < LEASES; i++) {
    struct lease *lease = &life->leases[i];
    int64_t ttl;
    bool gone = true;
    for (size_t k = 0; k < KEYS; k++)
      gone &= !goes(life, k, RENEWED) || life->owner[k] != i + 1;
    if (gone)
      continue; // it holds no key, or was revoked
    uint64_t now = clock_ns();
    if (weft_store_lease_keepalive(life->subject->store, lease->id, &ttl) != 0)
      return false; // only because this came too late; the caller looks at the clock
    assert_int_equal(ttl, MIDDLE_S);
    lease->not_before_ns = now + (uint64_t)MIDDLE_S * 1000000000;
  }
  return true;
}

static const struct support_event *deletion_of(const struct life *life, size_t key) {
  char name[16];
  name_key(name, key);
  for (size_t i = life->events.count; i-- > 0;)
    if (strcmp(life->events.all[i].key, name) == 0)
      return life->events.all[i].kind == WEFT_STORE_EVENT_DELETE ? &life->events.all[i] : NULL;
  return NULL;
}

static void check_times(const struct life *life) {
  for (size_t k = 0; k < KEYS; k++) {
    if (!life->present[k] || !life->owner[k] || goes(life, k, LASTING))
      continue;
    const struct support_event *event = deletion_of(life, k);
    const struct lease *lease = &life->leases[life->owner[k] - 1];
    if (!event)
      fail_msg("%s: key %zu is there, its lease has ended", life->subject->name, k);
    if (event->came_ns < lease->not_before_ns)
      fail_msg("%s: key %zu went %.3f s before its lease's time", life->subject->name, k,
               (double)(lease->not_before_ns - event->came_ns) / 1e9);
  }
}

static uint64_t distance(uint64_t a, uint64_t b) {
  return a > b ? a - b : b - a;
}

// Of one lease: one revision. Of two: two; the one that ended first has the lower one, unless both ended so close to
// each other that the store found them together.
static void check_revisions(const struct life *life) {
  for (size_t a = 0; a < KEYS; a++)
    for (size_t b = 0; b < KEYS; b++) {
      const struct support_event *one = deletion_of(life, a), *other = deletion_of(life, b);
      if (!life->present[a] || !life->present[b] || !one || !other)
        continue;
      enum fate first = life->leases[life->owner[a] - 1].fate, second = life->leases[life->owner[b] - 1].fate;
      if ((life->owner[a] == life->owner[b]) != (one->revision == other->revision))
        fail_msg("%s: keys %zu and %zu: leases %zu and %zu, revisions %" PRId64 " and %" PRId64, life->subject->name, a,
                 b, life->owner[a], life->owner[b], one->revision, other->revision);
      if (first < second && one->revision > other->revision &&
          distance(one->came_ns, other->came_ns) > BATCH_MS * UINT64_C(1000000))
        fail_msg("%s: the lease of key %zu ended after that of key %zu, which was to live longer", life->subject->name,
                 a, b);
    }
}

// Every event as the watch reported it, from revision `from` on: keys with the revision counted from the beginning.
// Leases of one fate end in any order, so of a lease that ran out it is the fate that counts, not the revision.
static void say_events(struct life *life, const struct support_events *events, int64_t until) {
  struct text *out = &life->subject->said;
  for (size_t i = 0; i < events->count; i++) {
    const struct support_event *event = &events->all[i];
    if (event->kind > WEFT_STORE_EVENT_DELETE || event->revision > until)
      continue;
    text_add(out, " %s%s at %" PRId64, event->kind == WEFT_STORE_EVENT_DELETE ? "-" : "", event->key,
             event->revision - life->subject->base);
  }
}

static void say_rest(struct life *life) {
  struct weft_store_list *list;
  assert_ok(weft_store_range(life->subject->store, "/e/", true, 0, &list));
  text_add(&life->subject->said, "\nat %" PRId64 " there are", list->revision - life->subject->base);
  for (size_t i = 0; i < list->count; i++)
    text_add(&life->subject->said, " %s", list->kvs[i]->key);
  weft_store_list_free(list);
  text_add(&life->subject->said, "\nleases:");
  for (size_t i = 0; i < LEASES; i++) {
    int64_t ttl;
    int asked = weft_store_lease_ttl(life->subject->store, life->leases[i].id, &ttl);
    int kept = weft_store_lease_keepalive(life->subject->store, life->leases[i].id, &ttl);
    int put = weft_store_put(life->subject->store, "/x", "", 0, life->leases[i].id, NULL);
    text_add(&life->subject->said, " %s,%s,%s", weft_err_name(asked), weft_err_name(kept), weft_err_name(put));
  }
}

// A watch from the beginning tells all of it again, in the same order.
static void check_replay(struct life *life) {
  struct support_events again;
  weft_store_watch_t *watch;
  support_events_init(&again);
  assert_ok(
      weft_store_watch_open(life->subject->store, "/e/", life->first_revision, support_events_take, &again, &watch));
  assert_true(support_events_wait(&again, WEFT_STORE_EVENT_DELETE, life->expected));
  weft_store_watch_close(watch);
  struct text live = {0};
  life->subject->said.size = 0;
  say_events(life, &life->events, INT64_MAX);
  text_add(&live, "%s", life->subject->said.data);
  life->subject->said.size = 0;
  say_events(life, &again, INT64_MAX);
  if (strcmp(live.data, life->subject->said.data) != 0)
    fail_msg("%s, live:%s\nand again:%s", life->subject->name, live.data, life->subject->said.data);
  text_free(&live);
  support_events_free(&again);
}

static bool live(struct life lives[SUBJECTS], uint64_t seed) {
  for (size_t i = 0; i < SUBJECTS; i++)
    if (!set_up(&lives[i], &subjects[i], seed)) {
      while (i-- > 0)
        close_life(&lives[i]);
      return false;
    }
  bool in_time = true;
  for (size_t i = 0; i < SUBJECTS; i++) {
    await(&lives[i], FIRST);
    in_time &= renew(&lives[i]);
    if (clock_ns() - lives[i].began_ns > (MIDDLE_S * 1000 - 200) * UINT64_C(1000000))
      in_time = false;
  }
  for (size_t i = 0; in_time && i < SUBJECTS; i++) {
    await(&lives[i], SECOND);
    await(&lives[i], RENEWED);
  }
  for (size_t i = 0; !in_time && i < SUBJECTS; i++)
    close_life(&lives[i]);
  return in_time;
}

static void leases_run_out_alike(void **state) {
  (void)state;
  static struct life lives[SUBJECTS];
  uint64_t seed = 1;
  int attempt = 0;
  while (!live(lives, seed))
    if (++attempt == ATTEMPTS)
      fail_msg("this machine is too slow: %d times leases of %d s ran out before all was set up", ATTEMPTS, SHORT_S);
  for (size_t i = 0; i < SUBJECTS; i++) {
    struct life *life = &lives[i];
    check_times(life);
    check_revisions(life);
    check_replay(life);
    life->subject->said.size = 0;
    int64_t before = life->subject->base + CHANGES + LEASES; // no more revisions than that were made by hand
    const struct support_event *first = NULL;
    for (size_t k = 0; k < KEYS; k++) // the first that ran out
      if (life->present[k] && deletion_of(life, k) && (!first || deletion_of(life, k)->revision < first->revision))
        first = deletion_of(life, k);
    say_events(life, &life->events, first ? first->revision - 1 : before);
    say_rest(life);
  }
  for (size_t i = 0; i + 1 < SUBJECTS; i++)
    if (strcmp(subjects[i].said.data, subjects[SUBJECTS - 1].said.data) != 0)
      fail_msg("seed %" PRIu64 "\n%s:%s\n%s:%s", seed, subjects[i].name, subjects[i].said.data,
               subjects[SUBJECTS - 1].name, subjects[SUBJECTS - 1].said.data);
  for (size_t i = 0; i < SUBJECTS; i++)
    close_life(&lives[i]);
}

static int start(void **state) {
  (void)state;
  return subjects_open(subjects) ? 0 : -1;
}

static int stop(void **state) {
  (void)state;
  subjects_close(subjects);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(leases_run_out_alike)};
  support_etcd_require();
  return cmocka_run_group_tests(tests, start, stop);
}
