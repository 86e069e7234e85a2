// Many comparisons at once.
#ifndef COMPARE_STATISTICS_DISCOVERIES_H
#define COMPARE_STATISTICS_DISCOVERIES_H

#include <stddef.h>

// Of a thousand rows without any change some fifty have an interval without 0. So chances are adjusted to the rate of
// false discoveries (Benjamini and Hochberg 1995): of all rows whose adjusted chance is at most 5 %, about 5 % are
// wrong. adjusted[i] belongs to chances[i]. NOMEM.
int discoveries_adjust(const double *chances, double *adjusted, size_t count);

#endif
