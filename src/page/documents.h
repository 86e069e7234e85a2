// The documents that pages hold: what results say, without what no picture or table shows. assets/*.js read them.
#ifndef PAGE_DOCUMENTS_H
#define PAGE_DOCUMENTS_H

#include <jansson.h>

#include "measure/figures.h"
#include "measure/results.h"

// Each is the caller's; NULL: memory ran out.

// {"page": "run", "head": {...}, "ranks": [0, 1, ...], "hosts": [...], "reasons": [...], "states": [...],
//  "phases": [{"index", "passed", "gbps"}], "columns": [...], "cells": [[...], ...],
//  "transitions": {"columns": [...], "rows": [[...]]}}
// The head is results_to_json() without its long lists. A cell is one rank in one phase that the plan has it in: a list
// of numbers in the order of the columns, since a run of 200 phases and 64 ranks has 12,800. Its phase, rank, state,
// host and reason are places in those lists; its life counts the rank's processes from 1.
json_t *page_run_document(const struct results *results);
// {"page": "figures", "runs": [{"label": ..., "figures": the document of figures_to_json() without samples}]}
json_t *page_figures_document(const struct figures *const *list, const char *const *labels, size_t count);
// {"page": "comparison", "comparison": {...}}
json_t *page_comparison_document(const json_t *comparison);

#endif
