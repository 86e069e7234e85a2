// Adjusts for many comparisons at once.
#ifndef COMPARE_STATISTICS_DISCOVERIES_H
#define COMPARE_STATISTICS_DISCOVERIES_H

#include <stddef.h>

// Of a thousand rows without any change, about fifty have an interval that does not contain 0. So the chances are
// adjusted for the false discovery rate (Benjamini and Hochberg 1995): of all rows whose adjusted chance is at most 5
// %, about 5 % have no change in truth. adjusted[i] belongs to chances[i]. NOMEM.
int discoveries_adjust(const double *chances, double *adjusted, size_t count);

#endif
