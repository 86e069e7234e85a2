// The length of the blocks of a block bootstrap.
#ifndef COMPARE_STATISTICS_BLOCK_LENGTH_H
#define COMPARE_STATISTICS_BLOCK_LENGTH_H

#include <stddef.h>

// Iterations that follow each other are not independent: a slow moment lasts longer than one iteration. So the
// bootstrap draws blocks of neighbours. Their length depends on the correlation of the samples: Politis and White 2004,
// "Automatic block-length selection for the dependent bootstrap", with the correction of Patton, Politis and White
// 2009, for the circular bootstrap. It is at least the cube root of the count, since blocks of that length do no harm
// with independent samples and make drawing faster. It is at most an eighth of the count, and 1 if there are fewer than
// 64 samples.
size_t block_length(const double *samples, size_t count);

#endif
