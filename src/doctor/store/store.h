// The store: whether it answers, and whether it lets this user read.
#ifndef DOCTOR_STORE_STORE_H
#define DOCTOR_STORE_STORE_H

#include <weft/store.h>

#include "doctor/report/check.h"

// Asks the store. NULL, or options without endpoints: no store is asked for. The facts are zero when it begins.
void doctor_gather_store(struct doctor_store_facts *facts, const struct weft_store_options *options);

doctor_judge_fn doctor_judge_store;

#endif
