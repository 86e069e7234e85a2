// Prints, below the transitions, each phase's longest stall without the joiners' own work.
#include <inttypes.h>

#include "base/text/text.h"
#include "base/text/wrap.h"
#include "measure/report.h"

enum { INDENT = 9 };

// Whether this transition is the first join of its phase, and has a stall. The stall is that of the phase, so it is
// printed once.
static bool has_stall(const struct results *results, uint32_t i) {
  const struct results_transition *t = &results->transitions[i];
  for (uint32_t k = 0; k < i; k++)
    if (results->transitions[k].phase == t->phase && results->transitions[k].change == RESULTS_JOIN)
      return false;
  return t->change == RESULTS_JOIN && t->membership_stall_us >= 0 && t->membership_rank >= 0;
}

void report_stalls(FILE *out, const struct results *results, const struct report_options *options) {
  for (uint32_t i = 0; i < results->num_transitions; i++) {
    const struct results_transition *t = &results->transitions[i];
    struct text line = {0};
    if (!has_stall(results, i))
      continue;
    text_add(&line, "phase %" PRIu32 ": without joiners' own work the longest stall was %.1f us, of rank %" PRId32,
             t->phase, t->membership_stall_us, t->membership_rank);
    if (t->membership_median_us > 0)
      text_add(&line, ", %.1fx its median", t->membership_stall_us / t->membership_median_us);
    wrap_write(out, line.data ? line.data : "", 0, INDENT, report_width(options));
    text_free(&line);
  }
}
