// Stores of each kind side by side. Their answers are converted to one form.
#include "conformance/subject.h"

#include "conformance/suite.h"
#include "support/etcd.h"
#include <inttypes.h>

static struct support_etcd etcd;
static weft_store_server_t *server;

static weft_store_t *open_url(const char *url, const char *token) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store = NULL;
  options.endpoints = url;
  options.token = token;
  options.request_timeout_ms = 30000;
  assert_ok(weft_store_open(&store, &options));
  return store;
}

bool subjects_open(struct subject subjects[SUBJECTS]) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  if (!support_etcd_start(&etcd))
    return false;
  assert_ok(weft_store_server_start(&server, &options));
  subjects[0].name = "local";
  assert_ok(weft_store_open_local(&subjects[0].store));
  subjects[1].name = "embedded";
  subjects[1].store = open_url(weft_store_server_url(server), weft_store_server_token(server));
  subjects[2].name = "etcd";
  subjects[2].store = open_url(etcd.url, NULL);
  return true;
}

void subjects_close(struct subject subjects[SUBJECTS]) {
  for (size_t i = 0; i < SUBJECTS; i++) {
    subject_end_watches(&subjects[i]);
    weft_store_close(subjects[i].store);
    text_free(&subjects[i].said);
  }
  weft_store_server_stop(server);
  support_etcd_stop(&etcd);
}

void subject_begin(struct subject *subject) {
  suite_put(subject->store, "/q/a", "x", 0);
  assert_ok(weft_store_delete(subject->store, "", true, NULL));
  subject->base = suite_put(subject->store, "/q/begin", "x", 0);
}

void subject_end(struct subject *subject) {
  subject_end_watches(subject);
  for (int i = 0; i < SUBJECT_LEASES; i++) {
    if (subject->leases[i])
      weft_store_lease_revoke(subject->store, subject->leases[i]); // mostly it is there
    subject->leases[i] = 0;
  }
}

int64_t subject_number_of_lease(const struct subject *subject, int64_t lease) {
  for (int i = 0; i < SUBJECT_LEASES; i++)
    if (lease && subject->leases[i] == lease)
      return i + 1;
  return lease ? -1 : 0;
}

int64_t subject_from_base(const struct subject *subject, int64_t revision) {
  return revision ? revision - subject->base : 0;
}

void subject_say_list(struct subject *subject, const struct weft_store_list *list) {
  text_add(&subject->said, "[%zu of %zu%s at %" PRId64, list->count, list->total, list->more ? ", more" : "",
           subject_from_base(subject, list->revision));
  for (size_t i = 0; i < list->count; i++) {
    const struct weft_store_kv *kv = list->kvs[i];
    bool wrong = subject->planted && kv->version == 2 && kv->value_len == 1;
    text_add(&subject->said, " %s=%s c%" PRId64 " m%" PRId64 " v%" PRId64 " l%" PRId64, kv->key,
             (const char *)kv->value, subject_from_base(subject, kv->create_revision),
             subject_from_base(subject, kv->mod_revision), kv->version + wrong,
             subject_number_of_lease(subject, kv->lease));
  }
  text_add(&subject->said, "]");
}
