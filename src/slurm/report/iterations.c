// Uses several iterations of a step to find out whether the best step is better by more than noise. It uses the
// bootstrap of `weft compare` on the figure `default`; an iteration is a repeat.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "compare/statistics/change.h"
#include "slurm/report/report.h"

enum { RESAMPLES = 4000, SEED = 1 };

static int collect(const struct slurm_report *report, const struct slurm_step *step, struct compare_series *series) {
  const struct slurm_run_record *of = step->run;
  *series = (struct compare_series){.name = "default", .unit = "GB/s", .higher = true};
  series->repeats = calloc(step->passed + 1, sizeof *series->repeats);
  if (!series->repeats)
    return fail(WEFT_ERR_NOMEM, "no memory for %u iterations", step->passed);
  for (size_t i = 0; i < report->record->num_runs; i++) {
    const struct slurm_reported *one = &report->runs[i];
    if (strcmp(one->run->test, of->test) == 0 && one->run->step == of->step && slurm_report_counts(one))
      series->repeats[series->num_repeats++] =
          (struct compare_repeat){.index = one->run->iteration, .value = one->metric, .error = -1};
  }
  return 0;
}

static const struct slurm_step *next_best(const struct slurm_step *list, size_t count, const struct slurm_step *best) {
  const struct slurm_step *next = NULL;
  for (size_t i = 0; i < count; i++)
    if (&list[i] != best && list[i].passed && (!next || list[i].reward > next->reward))
      next = &list[i];
  return next;
}

int slurm_report_lead(struct slurm_lead *lead, const struct slurm_report *report, const struct slurm_step *list,
                      size_t count) {
  struct compare_series one = {0}, other = {0};
  struct change change = {0};
  *lead = (struct slurm_lead){.best = slurm_report_best(list, count)};
  lead->next = lead->best ? next_best(list, count, lead->best) : NULL;
  if (!lead->next)
    return 0;
  int err = collect(report, lead->next, &one);
  if (!err)
    err = collect(report, lead->best, &other);
  if (!err)
    err = change_estimate(&one, &other, &(struct change_options){.resamples = RESAMPLES, .seed = SEED}, &change);
  if (!err) {
    lead->percent = 100 * change.ratio;
    lead->has_interval = change.basis != CHANGE_NOTHING;
    lead->low = 100 * change.low;
    lead->high = 100 * change.high;
    lead->significant = lead->has_interval && (change.low > 0 || change.high < 0);
  }
  free(one.repeats);
  free(other.repeats);
  return err;
}

void slurm_report_lead_words(struct text *text, const struct slurm_lead *lead) {
  text_add(text, "%+.1f %%", lead->percent);
  if (lead->has_interval)
    text_add(text, " (%+.1f .. %+.1f %% at 95 %%)", lead->low, lead->high);
  text_add(text, " against the next best, step %u: ", lead->next->run->step);
  text_add(text, "%s",
           lead->significant    ? "more than noise"
           : lead->has_interval ? "no more than noise"
                                : "too few iterations to say whether that is more than noise (--iterations)");
}
