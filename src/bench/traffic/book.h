// The reporter's collection of all workers' reports, and the rows made from them.
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

// A traffic_take_fn. PROTOCOL: the report of a worker is not valid.
int traffic_book_take(struct traffic_book *book, const struct traffic_batch *batch);

// Adds the rows of a repeat for everything that was measured, prints the rows to be shown, and empties the book for the
// next repeat. NOMEM.
int traffic_book_rows(struct traffic_book *book, struct figures *figures, struct bench_output *output,
                      struct limits *limits, uint32_t repeat);

// --- inside ---

struct traffic_series {
  uint64_t *ns;
  size_t count, room;
};

// The measurements of one pattern in one repeat.
struct traffic_page {
  struct traffic_series alone, sequence;   // from the common start to the last byte of the slowest
  struct traffic_series late;              // delay of the last worker to begin, in the sequence
  struct traffic_series gaps[2];           // before, after; of all workers
  struct traffic_series *ends;             // [workers] for each worker that starts transfers, in the sequence
  uint32_t *slowest;                       // [workers] how often each was the slowest, in the sequence
  struct traffic_series *pairs, *isolated; // [pairs] in the sequence; each alone
};

struct traffic_book {
  const struct traffic_worker *worker;
  struct traffic_page *pages; // [patterns]
};

#endif
