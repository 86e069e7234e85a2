// Rounds measured numbers.
#include "base/text/digits.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIGNIFICANT = 6 };

double digits_rounded(double value) {
  char text[32];
  bool large = value >= 1e6 || value <= -1e6;              // 10 to the power of SIGNIFICANT
  if (!isfinite(value) || value >= 1e15 || value <= -1e15) // so large a double is whole
    return value;
  if (large)
    snprintf(text, sizeof text, "%.0f", value);
  else
    snprintf(text, sizeof text, "%.*e", SIGNIFICANT - 1, value);
  return strtod(text, NULL);
}
