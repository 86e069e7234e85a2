// Checks whether the store answers, its version, and whether this user may read it.
#include "doctor/store/store.h"

#include "base/time/clock.h"

#include <stdio.h>

void doctor_gather_store(struct doctor_store_facts *facts, const struct weft_store_options *options) {
  if (!options || !options->endpoints)
    return;
  facts->asked = true;
  snprintf(facts->url, sizeof facts->url, "%s", options->endpoints);
  weft_store_t *store = NULL;
  struct weft_store_list *list = NULL;
  uint64_t begin = clock_ns();
  int err = weft_store_open(&store, options);
  if (!err)
    err = weft_store_version(store, facts->version, sizeof facts->version, NULL);
  facts->answer_ms = (double)(clock_ns() - begin) / 1e6;
  if (!err) // the version needs no permission, keys do
    err = weft_store_range(store, "/weft/doctor", false, 1, &list);
  if (!err)
    weft_store_list_free(list);
  else
    snprintf(facts->error, sizeof facts->error, "%s", weft_last_error());
  weft_store_close(store);
}

void doctor_judge_store(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_store_facts *store = &facts->store;
  if (!store->asked)
    return;
  if (!*store->error) {
    doctor_find(report, DOCTOR_OK, "%s answers in %.3g ms: %s", store->url, store->answer_ms, store->version);
    return;
  }
  doctor_find(report, DOCTOR_PROBLEM, "%s", store->error);
  doctor_means(report, "no rank can join, and no rank learns of changes");
  doctor_fix(report, "start it ('weft serve', or etcd); check that it listens on an address that this host reaches, "
                     "that the firewall lets its port through, and that --token, or --user and --ca, are right");
}
