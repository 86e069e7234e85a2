// The documents that pages hold: what results say, without what no picture or table shows. assets/*.js read them.
#ifndef PAGE_DOCUMENTS_H
#define PAGE_DOCUMENTS_H

#include <jansson.h>

#include "measure/figures.h"
#include "measure/results.h"

// Each is the caller's; NULL: memory ran out.

// {"page": "run", "head": {...}, "ranks": [0, 1, ...], "hosts": [...], "reasons": [...], "states": [...],
//  "phases": [{"index", "passed", "gbps", "begin_s", "end_s"}], "columns": [...], "cells": [[...], ...],
//  "transitions": {"columns": [...], "rows": [[...]]}, "traffic": page_matrices()}
// The head is results_to_json() without its long lists. A cell is one rank in one phase that the plan has it in: a list
// of numbers in the order of the columns, since a run of 200 phases and 64 ranks has 12,800. Its phase, rank, state,
// host and reason are places in those lists; its life counts the rank's processes from 1.
json_t *page_run_document(const struct results *results);

// {"alphabet": ..., "final": 74, "measured": 4, "matrices": [{"phase": 0, "senders": [0, 1], "rows": ["...", "..."]}]}
// Phase and senders are places in the lists of the document. A text of `rows` has numbers of a sender's dispatch_rows,
// one for each rank: first their least that is not 0, then for each 0, or how much more it is than that, and 1 more. A
// number below `final` is one character, the one at its place in the alphabet; of a larger one, less `final`, the
// character at `final` + its rest by 16 comes first, and then its part by 16 as such a number. The texts have
// PAGE_MATRICES_SIZE bytes together, or little more: where all have more, every second matrix is there, or every third,
// ..., and the last one. `measured`: how many there would be.
enum { PAGE_MATRICES_SIZE = 224 << 10 };
json_t *page_matrices(const struct results *results);

// {"page": "figures", "runs": [{"label": ..., "figures": the document of figures_to_json() without samples}]}
json_t *page_figures_document(const struct figures *const *list, const char *const *labels, size_t count);
// {"page": "comparison", "comparison": {...}}
json_t *page_comparison_document(const json_t *comparison);

#endif
