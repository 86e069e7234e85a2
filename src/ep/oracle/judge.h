// What the two judges share.
#ifndef EP_ORACLE_JUDGE_H
#define EP_ORACLE_JUDGE_H

#include "ep/oracle/oracle.h"

// Writes the sentence into the verdict, which is then not ok. Returns false.
bool oracle_wrong(struct oracle_verdict *verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Whether the case can be judged: sizes within weft/ep.h's limits, sources ascending. If not, the verdict says why.
bool oracle_case_valid(const struct oracle_case *test, struct oracle_verdict *verdict);

// What `rank` dispatched; NULL when it is not in the view.
const struct oracle_source *oracle_source_of(const struct oracle_case *test, int32_t rank);

// The row x[token] of a source: in its own memory, or made in room[H].
const uint16_t *oracle_row(const struct oracle_case *test, const struct oracle_source *source, uint32_t token,
                           uint16_t *room);

// Whether the values of this token are judged.
static inline bool oracle_sampled(const struct oracle_case *test, uint32_t token) {
  return test->sample <= 1 || token % test->sample == test->sample_first % test->sample;
}

bool oracle_listed(int32_t rank, const int32_t *ranks, uint32_t count);

#endif
