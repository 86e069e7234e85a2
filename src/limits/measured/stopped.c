// Checks whether the caller has requested the end of the measurements.
#include "base/fail.h"
#include "limits/measured/measured.h"

int limits_check_stopped(const struct limits_try *one) {
  const struct limits_measure *measure = one->measure;
  if (measure->stopped && measure->stopped(measure->arg))
    return fail(WEFT_ERR_CANCELED, "not all bounds were measured, so none was kept");
  return 0;
}
