// What the reporter keeps of all that workers told, and the rows that come of it.
#ifndef BENCH_TRAFFIC_BOOK_H
#define BENCH_TRAFFIC_BOOK_H

#include "bench/common/output.h"
#include "bench/traffic/run.h"
#include "limits/limits.h"
#include "measure/figures.h"

struct traffic_book;

// NOMEM.
int traffic_book_open(struct traffic_book **book, const struct traffic_worker *worker);
void traffic_book_close(struct traffic_book *book);

// A traffic_take_fn. PROTOCOL: a worker told what makes no sense.
int traffic_book_take(struct traffic_book *book, const struct traffic_batch *batch);

// Adds the rows of a repeat, as far as something was measured, prints those that are to be shown, and empties the book
// for the next one. NOMEM.
int traffic_book_rows(struct traffic_book *book, struct figures *figures, struct bench_output *output,
                      struct limits *limits, uint32_t repeat);

// --- inside ---

struct traffic_series {
  uint64_t *ns;
  size_t count, room;
};

// What was seen of one pattern in one repeat.
struct traffic_page {
  struct traffic_series alone, sequence;   // from the common start to the last byte of the slowest
  struct traffic_series late;              // of the last worker to begin, in the sequence
  struct traffic_series gaps[2];           // before, after; of all workers
  struct traffic_series *ends;             // [workers] of each that starts transfers, in the sequence
  uint32_t *slowest;                       // [workers] how often each was it, in the sequence
  struct traffic_series *pairs, *isolated; // [pairs] in the sequence; each alone
};

struct traffic_book {
  const struct traffic_worker *worker;
  struct traffic_page *pages; // [patterns]
};

#endif
