// Writes a report in the form that is asked for.
#include <errno.h>

#include "base/fail.h"
#include "slurm/report/report.h"

int slurm_report_write(FILE *out, const struct slurm_report *report, const struct report_options *look) {
  int err = 0;
  if (look->format == REPORT_JSON)
    err = slurm_report_json(out, report);
  else if (look->format == REPORT_CSV)
    slurm_report_csv(out, report);
  else
    err = slurm_report_text(out, report, look);
  if (!err && (fflush(out) != 0 || ferror(out)))
    err = fail_errno(errno, "cannot write the report");
  return err;
}
