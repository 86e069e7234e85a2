// A baseline: a run without its samples, small enough for a repository.
//
//   {"weft_baseline": 1, "version": "0.1.0", "format": "weft figures", "remark": "", "started": [0, ...],
//    "rows": [{"keys": {...}, "figures": [{"name": "latency", "unit": "us", "better": "lower", "detail": false,
//                                          "repeats": [{"value": 3.1, "error": 0.02, "count": 1000}]}]}]}
#ifndef COMPARE_READ_BASELINE_H
#define COMPARE_READ_BASELINE_H

#include "compare/model/run.h"

// Makes the document; `error` of a repeat is the standard error of its mean. NULL: memory ran out.
json_t *compare_baseline_json(const struct compare_run *run);

#endif
