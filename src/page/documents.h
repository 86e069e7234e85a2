// The JSON documents in pages. They have the results, without data that no chart or table shows. assets/*.js read them.
#ifndef PAGE_DOCUMENTS_H
#define PAGE_DOCUMENTS_H

#include <jansson.h>

#include "measure/figures.h"
#include "measure/results.h"

// Each is the caller's; NULL: memory ran out.

// {"page": "run", "head": {...}, "ranks": [0, 1, ...], "hosts": [...], "reasons": [...], "states": [...],
//  "phases": [{"index", "passed", "gbps", "begin_s", "end_s"}], "columns": [...], "cells": [[...], ...],
//  "transitions": {"columns": [...], "rows": [[...]]}, "traffic": page_matrices()}
// The head is results_to_json() without its long lists. There is a cell for each rank in each phase in which the plan
// has this rank. A cell is a list of numbers in the order of the columns, not an object, to save room: a run of 200
// phases and 64 ranks has 12,800 cells. Its phase, rank, state, host and reason are indices of those lists; its life
// counts the rank's processes from 1.
json_t *page_run_document(const struct results *results);

// {"alphabet": ..., "final": 74, "measured": 4, "matrices": [{"phase": 0, "senders": [0, 1], "rows": ["...", "..."]}]}
// Phase and senders are indices of the lists of the document. Each text of `rows` encodes the dispatch_rows of one
// sender, with a number for each rank. First comes the least number that is not 0; then for each rank 0 if its number
// is 0, else the difference of its number from that least one, plus 1. A number below `final` is one character:
// alphabet[number]. A larger number n is written as alphabet[final + (n - final) % 16], followed by (n - final) / 16 as
// such a number. The texts together have about PAGE_MATRICES_SIZE bytes at most. If all matrices need more, the
// document has only every second matrix, or every third, ..., and the last one. `measured`: how many matrices there are
// without this limit.
enum { PAGE_MATRICES_SIZE = 224 << 10 };
json_t *page_matrices(const struct results *results);

// {"page": "figures", "runs": [{"label": ..., "figures": the document of figures_to_json() without samples}]}
json_t *page_figures_document(const struct figures *const *list, const char *const *labels, size_t count);
// {"page": "comparison", "comparison": {...}}
json_t *page_comparison_document(const json_t *comparison);

#endif
