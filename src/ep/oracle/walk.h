// How the judge of dispatch walks through all rows that must be there, and reports an error in one of them.
#ifndef EP_ORACLE_WALK_H
#define EP_ORACLE_WALK_H

#include "ep/oracle/judge.h"

// How much of a source arrived.
enum brought { BROUGHT_ALL, BROUGHT_NOTHING, BROUGHT_PART };

struct walk {
  const struct oracle_case *test;
  const struct weft_ep_recv_args *recv;
  const int32_t *lost;
  uint32_t num_lost;
  int32_t rank;
  // A part holds the rows of one local expert; in RANK_MAJOR one part holds all rows.
  uint32_t num_parts;
  uint64_t begin[EP_MAX_EXPERTS];    // row of x where each part begins
  uint32_t next_row[EP_MAX_EXPERTS]; // of each part
  uint32_t next_pair;                // PACKED: row of `slot`
  const uint16_t *x;                 // [H] values of the current token,
  uint16_t made[EP_MAX_HIDDEN];      // if they were made for the judge,
  uint8_t q[EP_MAX_HIDDEN];          // and their cast
  float scales[EP_MAX_HIDDEN / WEFT_EP_BLOCK];
  struct oracle_verdict *verdict;
};

// A received row and what it must contain.
struct row {
  const struct oracle_source *source; // NULL: nothing, the row lies behind the rows of a part
  int64_t token;                      // -1: a token that did not arrive
  uint32_t part, index;               // where
};

static inline uint64_t walk_place(const struct walk *walk, const struct row *row) {
  return walk->begin[row->part] + row->index;
}

// Fails the verdict with a text that names the place of the row and then the error. Returns false.
bool walk_wrong(const struct walk *walk, const struct row *row, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// walk_take() makes a token the current one. walk_check_values() judges the values and scales of one of its rows.
void walk_take(struct walk *walk, const struct oracle_source *source, uint32_t token);
bool walk_check_values(const struct walk *walk, const struct row *row);

// Whether all values and scales of a row are 0.
bool walk_check_zeros(const struct walk *walk, const struct row *row);

#endif
