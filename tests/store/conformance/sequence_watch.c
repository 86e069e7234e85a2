// The watches of a sequence of operations, whose events are compared between stores.
#include "base/random.h"
#include "conformance/subject.h"
#include "conformance/suite.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const subject_prefixes[SUBJECT_PREFIXES] = {"/q/none", "/q/a/", "/q/b\xff", "/q/a", "/q/b", "/q/", ""};

enum { DEADLINE_MS = 20000 };

static void close_watch(struct subject_watch *watch) {
  if (!watch->watch)
    return;
  weft_store_watch_close(watch->watch);
  watch->watch = NULL;
  support_events_free(&watch->events);
}

void subject_end_watches(struct subject *subject) {
  for (int i = 0; i < SUBJECT_WATCHES; i++)
    close_watch(&subject->watches[i]);
}

// From now, or from any revision since the beginning up to the next one.
static int64_t pick_start(struct subject *subject, uint64_t *random) {
  struct weft_store_list *list;
  assert_ok(weft_store_range(subject->store, "/none", false, 0, &list));
  int64_t since = list->revision - subject->base;
  weft_store_list_free(list);
  if (random_next(random) % 3 == 0)
    return 0;
  return subject->base + (int64_t)(random_next(random) % (uint64_t)(since + 2));
}

void subject_run_watch(struct subject *subject, uint64_t *random) {
  struct subject_watch *watch = &subject->watches[random_next(random) % SUBJECT_WATCHES];
  const char *prefix = subject_prefixes[random_next(random) % SUBJECT_PREFIXES];
  bool close = watch->watch != NULL;
  close_watch(watch);
  if (close && random_next(random) % 2) {
    text_add(&subject->said, "watch closed");
    return;
  }
  watch->prefix = prefix;
  watch->from = pick_start(subject, random);
  watch->said = 0;
  support_events_init(&watch->events);
  assert_ok(
      weft_store_watch_open(subject->store, prefix, watch->from, support_events_take, &watch->events, &watch->watch));
  text_add(&subject->said, "watch of %s from %" PRId64, prefix, subject_from_base(subject, watch->from));
}

static void say_event(struct subject *subject, const struct support_event *event) {
  switch (event->kind) {
  case WEFT_STORE_EVENT_PUT:
    text_add(&subject->said, " %s=%s c%" PRId64 " m%" PRId64 " v%" PRId64 " l%" PRId64, event->key, event->value,
             subject_from_base(subject, event->create_revision), subject_from_base(subject, event->revision),
             event->version, subject_number_of_lease(subject, event->lease));
    break;
  case WEFT_STORE_EVENT_DELETE:
    text_add(&subject->said, " -%s m%" PRId64, event->key, subject_from_base(subject, event->revision));
    break;
  case WEFT_STORE_EVENT_RESET:
    text_add(&subject->said, " reset");
    break;
  case WEFT_STORE_EVENT_LOST: // a matter of the connection
  case WEFT_STORE_EVENT_RESUMED:
    break;
  }
}

static void name_marker(char out[32], const char *prefix) {
  snprintf(out, 32, "%s!sync", prefix);
}

// One marker under each prefix, all in one revision; under a watch's prefix its own comes last.
static int64_t put_markers(struct subject *subject) {
  struct weft_store_op ops[SUBJECT_PREFIXES];
  char names[SUBJECT_PREFIXES][32];
  for (int i = 0; i < SUBJECT_PREFIXES; i++) {
    name_marker(names[i], subject_prefixes[i]);
    ops[i] = (struct weft_store_op){.kind = WEFT_STORE_PUT, .key = names[i], .value = "", .value_len = 0};
  }
  struct weft_store_txn_result *result;
  assert_ok(weft_store_txn_commit(subject->store,
                                  &(struct weft_store_txn){.size = sizeof(struct weft_store_txn),
                                                           .each_op = sizeof *ops,
                                                           .success = ops,
                                                           .num_success = SUBJECT_PREFIXES},
                                  &result));
  int64_t revision = result->revision;
  weft_store_txn_result_free(result);
  return revision;
}

void subject_sync(struct subject *subject) {
  char marker[32];
  int64_t revision = put_markers(subject);
  text_add(&subject->said, "sync at %" PRId64, subject_from_base(subject, revision));
  for (int i = 0; i < SUBJECT_WATCHES; i++) {
    struct subject_watch *watch = &subject->watches[i];
    if (!watch->watch)
      continue;
    name_marker(marker, watch->prefix);
    text_add(&subject->said, "\n  watch of '%s':", watch->prefix);
    if (!support_events_wait_key(&watch->events, marker, revision, DEADLINE_MS))
      text_add(&subject->said, " (the marker did not come within %d ms)", DEADLINE_MS);
    pthread_mutex_lock(&watch->events.lock);
    for (; watch->said < watch->events.count; watch->said++)
      say_event(subject, &watch->events.all[watch->said]);
    pthread_mutex_unlock(&watch->events.lock);
  }
}
