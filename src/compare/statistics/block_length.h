// How long the blocks of a block bootstrap are.
#ifndef COMPARE_STATISTICS_BLOCK_LENGTH_H
#define COMPARE_STATISTICS_BLOCK_LENGTH_H

#include <stddef.h>

// Iterations that follow each other are not independent: a slow moment lasts longer than one of them. So blocks of
// neighbours are drawn. Their length comes from the correlation that there is: Politis and White 2004, "Automatic
// block-length selection for the dependent bootstrap", with the correction of Patton, Politis and White 2009, for the
// circular bootstrap. It is at least the cube root of the count, since blocks of that length cost independent samples
// nothing and make drawing faster, and at most an eighth; 1 where there are fewer than 64.
size_t block_length(const double *samples, size_t count);

#endif
