// Members of a group on a real store, each with its own handle.
#include "group/support/members.h"

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "group/view.h"
#include <stdlib.h>
#include <string.h>

uint64_t member_deadline(void) {
  return clock_deadline_ms(MEMBER_DEADLINE_MS);
}

static void on_event(void *arg, const struct group_event *event) {
  struct test_member *member = arg;
  pthread_mutex_lock(&member->lock);
  member->counts[event->kind]++;
  if (event->kind == GROUP_EVENT_VIEW && member->num_views < MEMBER_EVENTS)
    member->views[member->num_views++] = group_view_ref(event->view);
  pthread_cond_broadcast(&member->told);
  pthread_mutex_unlock(&member->lock);
}

static void init(struct test_member *member) {
  *member = (struct test_member){0};
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&member->lock, NULL);
  pthread_cond_init(&member->told, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

int member_try_open(struct test_member *member, weft_store_t *store, int32_t rank, uint32_t founders, uint32_t ttl_s,
                    uint64_t deadline_ns) {
  init(member);
  int32_t ranks[64];
  for (uint32_t i = 0; i < founders; i++)
    ranks[i] = (int32_t)i;
  const struct group_options options = {.store = store,
                                        .prefix = "/weft/test/",
                                        .rank = rank,
                                        .capacity = 64,
                                        .founders = ranks,
                                        .num_founders = founders,
                                        .lease_ttl_s = ttl_s,
                                        .address = "here",
                                        .on_event = on_event,
                                        .event_arg = member};
  return group_open(&member->group, &options, deadline_ns);
}

void member_open(struct test_member *member, weft_store_t *store, int32_t rank, uint32_t founders, uint32_t ttl_s) {
  int err = member_try_open(member, store, rank, founders, ttl_s, member_deadline());
  if (err)
    fail_msg("rank %d: %s", rank, weft_last_error());
}

void member_close(struct test_member *member) {
  group_close(member->group);
  member->group = NULL;
  for (uint32_t i = 0; i < member->num_views; i++)
    group_view_unref(member->views[i]);
  member->num_views = 0;
  pthread_cond_destroy(&member->told);
  pthread_mutex_destroy(&member->lock);
}

struct founder {
  pthread_t thread;
  struct test_member *member;
  weft_store_t *store;
  int32_t rank;
  uint32_t founders, ttl_s;
  int err;
  char text[512];
};

static void *found(void *arg) {
  struct founder *f = arg;
  f->err = member_try_open(f->member, f->store, f->rank, f->founders, f->ttl_s, member_deadline());
  if (!f->err)
    f->err = group_found(f->member->group, member_deadline());
  if (f->err)
    strncpy(f->text, weft_last_error(), sizeof f->text - 1);
  return NULL;
}

void members_found(struct test_member *members, weft_store_t **stores, uint32_t count, uint32_t ttl_s) {
  struct founder *founders = calloc(count, sizeof *founders);
  assert_non_null(founders);
  for (uint32_t i = 0; i < count; i++) {
    founders[i] = (struct founder){
        .member = &members[i], .store = stores[i], .rank = (int32_t)i, .founders = count, .ttl_s = ttl_s};
    assert_int_equal(pthread_create(&founders[i].thread, NULL, found, &founders[i]), 0);
  }
  for (uint32_t i = 0; i < count; i++)
    pthread_join(founders[i].thread, NULL);
  for (uint32_t i = 0; i < count; i++)
    if (founders[i].err)
      fail_msg("rank %u: %s", i, founders[i].text);
  free(founders);
}

void member_await_events(struct test_member *member, enum group_event_kind kind, uint32_t count) {
  struct timespec deadline = clock_timespec(member_deadline());
  pthread_mutex_lock(&member->lock);
  int error = 0;
  while (member->counts[kind] < count && !error)
    error = pthread_cond_timedwait(&member->told, &member->lock, &deadline);
  uint32_t told = member->counts[kind];
  pthread_mutex_unlock(&member->lock);
  if (told < count)
    fail_msg("received %u events of kind %d, not %u", told, (int)kind, count);
}

int member_join(struct test_member *member) {
  int err = WEFT_ERR_CONFLICT;
  while (err == WEFT_ERR_CONFLICT) {
    const struct group_view *base = group_view(member->group);
    err = group_join(member->group, base, member_deadline());
    group_view_unref(base);
  }
  return err;
}

void members_check_views(struct test_member *members, uint32_t count, bool whole) {
  const struct group_view *known[MEMBER_EVENTS] = {0};
  for (uint32_t i = 0; i < count; i++) {
    struct test_member *m = &members[i];
    pthread_mutex_lock(&m->lock);
    for (uint32_t j = 0; j < m->num_views; j++) {
      uint64_t epoch = m->views[j]->epoch;
      assert_true(epoch < MEMBER_EVENTS);
      if (!known[epoch])
        known[epoch] = m->views[j];
      assert_true(group_view_equal(known[epoch], m->views[j]));
      if (j > 0)
        assert_true(whole ? epoch == m->views[j - 1]->epoch + 1 : epoch > m->views[j - 1]->epoch);
    }
    pthread_mutex_unlock(&m->lock);
  }
}
