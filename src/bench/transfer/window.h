// The time in which all initiators of a row moved data.
#ifndef BENCH_TRANSFER_WINDOW_H
#define BENCH_TRANSFER_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transfer_window {
  // time in which all initiators moved, by rank 0's clock; the end is before the begin if there was no such time
  int64_t begin, end;
  int64_t first, last; // time in which any initiator moved
  int64_t shortest;    // time of one initiator
  uint32_t initiators;
};

#define TRANSFER_WINDOW_INIT                                                                                           \
  (struct transfer_window) {                                                                                           \
    .begin = INT64_MIN, .end = INT64_MAX, .first = INT64_MAX, .last = INT64_MIN, .shortest = INT64_MAX                 \
  }

// Adds an initiator that moved from begin to end.
void transfer_window_add(struct transfer_window *window, int64_t begin, int64_t end);

// The length of the window in ns; 0 if there was no such time.
double transfer_window_ns(const struct transfer_window *window);

// Whether the row has to be measured again: the window is less than TRANSFER_LEAST_SPREAD of the time from the first
// begin to the last end.
#define TRANSFER_LEAST_SPREAD 0.25
bool transfer_window_is_narrow(const struct transfer_window *window);

// Whether the window's figures represent all initiators: the window is at least TRANSFER_LEAST_OVERLAP of the shortest
// initiator's time, so slow initiators beside quick ones are accepted; and `fewest`, the least number of requests that
// an initiator ended in it, is at least 1. Otherwise writes the reason as a sentence into why[cap], which ends with
// `advice`; NULL: more iterations.
#define TRANSFER_LEAST_OVERLAP 0.25
bool transfer_window_holds(const struct transfer_window *window, uint64_t fewest, const char *advice, char *why,
                           size_t cap);

#endif
