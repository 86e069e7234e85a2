// The way of the judge of dispatch through all rows that must be there, and what is wrong with one of them.
#ifndef EP_ORACLE_WALK_H
#define EP_ORACLE_WALK_H

#include "ep/oracle/judge.h"

// What came of a source.
enum brought { BROUGHT_ALL, BROUGHT_NOTHING, BROUGHT_PART };

struct walk {
  const struct oracle_case *test;
  const struct weft_ep_recv_args *recv;
  const int32_t *lost;
  uint32_t num_lost;
  int32_t rank;
  // A part is a local expert's rows, or in RANK_MAJOR the one part that holds all.
  uint32_t num_parts;
  uint64_t begin[EP_MAX_EXPERTS];    // row of x where each part begins
  uint32_t next_row[EP_MAX_EXPERTS]; // of each part
  uint32_t next_pair;                // PACKED: row of `slot`
  const uint16_t *x;                 // [H] of the token at hand,
  uint16_t made[EP_MAX_HIDDEN];      // where it was made for the judge,
  uint8_t q[EP_MAX_HIDDEN];          // and cast
  float scales[EP_MAX_HIDDEN / WEFT_EP_BLOCK];
  struct oracle_verdict *verdict;
};

// A received row and what must stand there.
struct row {
  const struct oracle_source *source; // NULL: nothing, it lies behind the rows of a part
  int64_t token;                      // -1: one that did not come
  uint32_t part, index;               // where
};

static inline uint64_t walk_place(const struct walk *walk, const struct row *row) {
  return walk->begin[row->part] + row->index;
}

// Says where the row stands, before what is wrong with it. Returns false.
bool walk_wrong(const struct walk *walk, const struct row *row, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Takes the values of a token for walk_check_values(), which judges the values and scales of one of its rows.
void walk_take(struct walk *walk, const struct oracle_source *source, uint32_t token);
bool walk_check_values(const struct walk *walk, const struct row *row);

// Whether all values and scales of a row are 0.
bool walk_check_zeros(const struct walk *walk, const struct row *row);

#endif
