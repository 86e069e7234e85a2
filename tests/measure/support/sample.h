// Results made by hand for the tests: every state, every kind of transition, fixed figures.
#ifndef TESTS_MEASURE_SAMPLE_H
#define TESTS_MEASURE_SAMPLE_H

#include "measure/results.h"

// A run of [[0-3], [0-7], [0-4 -6 7], [0-7]] that passed; each to be freed with results_free().
void sample_passed(struct results *results);

// A run of [[0-3], [0-7], [0-7 9]] in which rank 2 found wrong data in phase 1.
void sample_failed(struct results *results);

// Everything as wide as it may come: ranks of three digits, long names, large figures, every column of every table.
void sample_wide(struct results *results);

#endif
