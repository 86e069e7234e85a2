// Takes the reports of workers, and checks them.
#include "bench/traffic/book.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

static int no_memory(void) {
  return fail(WEFT_ERR_NOMEM, "no memory for what was measured");
}

static int append(struct traffic_series *series, uint64_t ns) {
  if (series->count == series->room) {
    size_t room = series->room ? 2 * series->room : 64;
    uint64_t *grown = realloc(series->ns, room * sizeof *grown);
    if (!grown)
      return no_memory();
    series->ns = grown;
    series->room = room;
  }
  series->ns[series->count++] = ns;
  return 0;
}

int traffic_book_open(struct traffic_book **out, const struct traffic_worker *worker) {
  const struct traffic_plan *plan = worker->config->plan;
  struct traffic_book *book = calloc(1, sizeof *book);
  if (book)
    book->pages = calloc(plan->num_patterns, sizeof *book->pages);
  bool failed = !book || !book->pages;
  for (uint32_t i = 0; !failed && i < plan->num_patterns; i++) {
    struct traffic_page *page = &book->pages[i];
    page->ends = calloc(worker->sync.size, sizeof *page->ends);
    page->slowest = calloc(worker->sync.size, sizeof *page->slowest);
    page->pairs = calloc(plan->patterns[i].num_pairs, sizeof *page->pairs);
    page->isolated = calloc(plan->patterns[i].num_pairs, sizeof *page->isolated);
    failed = !page->ends || !page->slowest || !page->pairs || !page->isolated;
  }
  if (book)
    book->worker = worker;
  if (failed) {
    traffic_book_close(book);
    return no_memory();
  }
  *out = book;
  return 0;
}

void traffic_book_close(struct traffic_book *book) {
  if (!book)
    return;
  for (uint32_t i = 0; book->pages && i < book->worker->config->plan->num_patterns; i++) {
    struct traffic_page *page = &book->pages[i];
    for (uint32_t rank = 0; page->ends && rank < book->worker->sync.size; rank++)
      free(page->ends[rank].ns);
    for (uint32_t j = 0; j < book->worker->config->plan->patterns[i].num_pairs; j++) {
      free(page->pairs ? page->pairs[j].ns : NULL);
      free(page->isolated ? page->isolated[j].ns : NULL);
    }
    free(page->ends);
    free(page->slowest);
    free(page->pairs);
    free(page->isolated);
    free(page->alone.ns);
    free(page->sequence.ns);
    free(page->late.ns);
    free(page->gaps[0].ns);
    free(page->gaps[1].ns);
  }
  free(book->pages);
  free(book);
}

// --- taking ---

static int nonsense(uint32_t rank, const char *what) {
  return fail(WEFT_ERR_PROTOCOL, "worker %u sent impossible %s: is it of another version?", rank, what);
}

// Reads one group of numbers in a list; none may be negative.
static bool read_group(const json_t *list, size_t at, uint64_t *numbers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const json_t *number = json_array_get(list, at + i);
    if (!json_is_integer(number) || json_integer_value(number) < 0)
      return false;
    numbers[i] = (uint64_t)json_integer_value(number);
  }
  return true;
}

// What is known of one run of a batch.
struct run_seen {
  uint64_t end, late;
  uint32_t slowest;
};

static uint32_t pattern_of(const struct traffic_book *book, const struct traffic_batch *batch, uint64_t run) {
  return batch->stage == TRAFFIC_SEQUENCE ? (uint32_t)(run % book->worker->config->plan->num_patterns) : batch->pattern;
}

static int take_runs(struct traffic_book *book, const struct traffic_batch *batch, uint32_t rank,
                     struct run_seen *seen) {
  enum { RUN, LATE, END, NUMBERS };
  const json_t *list = json_object_get(batch->reports[rank], "runs");
  uint64_t n[NUMBERS];
  for (size_t at = 0; at < json_array_size(list); at += NUMBERS) {
    if (!read_group(list, at, n, NUMBERS) || n[RUN] >= batch->count)
      return nonsense(rank, "runs");
    struct run_seen *run = &seen[n[RUN]];
    if (n[END] > run->end) {
      run->end = n[END];
      run->slowest = rank;
    }
    run->late = n[LATE] > run->late ? n[LATE] : run->late;
    struct traffic_page *page = &book->pages[pattern_of(book, batch, n[RUN])];
    int rc = batch->stage == TRAFFIC_SEQUENCE ? append(&page->ends[rank], n[END]) : 0;
    if (rc != 0)
      return rc;
  }
  return 0;
}

static int take_gaps(struct traffic_book *book, const struct traffic_batch *batch, uint32_t rank) {
  enum { PATTERN, AFTER, NS, NUMBERS };
  const json_t *list = json_object_get(batch->reports[rank], "gaps");
  uint64_t n[NUMBERS];
  for (size_t at = 0; at < json_array_size(list); at += NUMBERS) {
    if (!read_group(list, at, n, NUMBERS) || n[PATTERN] >= book->worker->config->plan->num_patterns || n[AFTER] > 1)
      return nonsense(rank, "gaps");
    int rc = append(&book->pages[n[PATTERN]].gaps[n[AFTER]], n[NS]);
    if (rc != 0)
      return rc;
  }
  return 0;
}

static int take_pairs(struct traffic_book *book, const struct traffic_batch *batch, uint32_t rank) {
  enum { PATTERN, PAIR, END, NUMBERS };
  const json_t *list = json_object_get(batch->reports[rank], "pairs");
  const struct traffic_plan *plan = book->worker->config->plan;
  uint64_t n[NUMBERS];
  if (batch->stage == TRAFFIC_ALONE)
    // The report shows the pairs of the sequence, and beside them each pair alone.
    return 0;
  for (size_t at = 0; at < json_array_size(list); at += NUMBERS) {
    if (!read_group(list, at, n, NUMBERS) || n[PATTERN] >= plan->num_patterns ||
        n[PAIR] >= plan->patterns[n[PATTERN]].num_pairs)
      return nonsense(rank, "pairs");
    struct traffic_page *page = &book->pages[n[PATTERN]];
    int rc = append(batch->stage == TRAFFIC_PAIRS ? &page->isolated[n[PAIR]] : &page->pairs[n[PAIR]], n[END]);
    if (rc != 0)
      return rc;
  }
  return 0;
}

static int keep_runs(struct traffic_book *book, const struct traffic_batch *batch, const struct run_seen *seen) {
  int rc = 0;
  for (uint32_t i = 0; i < batch->count && rc == 0; i++) {
    struct traffic_page *page = &book->pages[pattern_of(book, batch, i)];
    bool sequence = batch->stage == TRAFFIC_SEQUENCE;
    rc = append(sequence ? &page->sequence : &page->alone, seen[i].end);
    if (rc == 0 && sequence) {
      page->slowest[seen[i].slowest]++;
      rc = append(&page->late, seen[i].late);
    }
  }
  return rc;
}

int traffic_book_take(struct traffic_book *book, const struct traffic_batch *batch) {
  struct run_seen *seen = calloc(batch->count ? batch->count : 1, sizeof *seen);
  int rc = seen ? 0 : no_memory();
  for (uint32_t rank = 0; rank < book->worker->sync.size && rc == 0; rank++) {
    rc = take_runs(book, batch, rank, seen);
    if (rc == 0)
      rc = take_gaps(book, batch, rank);
    if (rc == 0)
      rc = take_pairs(book, batch, rank);
  }
  if (rc == 0 && batch->stage != TRAFFIC_PAIRS)
    rc = keep_runs(book, batch, seen);
  free(seen);
  return rc;
}
