// Checks whether the store answers, and whether this user may read it.
#ifndef DOCTOR_STORE_STORE_H
#define DOCTOR_STORE_STORE_H

#include <weft/store.h>

#include "doctor/report/check.h"

// Connects to the store and reads from it. NULL, or options without endpoints: there is no store to check. The caller
// has zeroed the facts.
void doctor_gather_store(struct doctor_store_facts *facts, const struct weft_store_options *options);

doctor_judge_fn doctor_judge_store;

#endif
