// Output to a descriptor whose reader may be slow: what a pipe or a terminal has no room for waits in memory, so that
// the thread that prints goes on. The descriptor itself stays as it is, since other processes may share it. For one
// thread.
#ifndef BASE_TEXT_OUTPUT_QUEUE_H
#define BASE_TEXT_OUTPUT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/text.h"

enum { OUTPUT_QUEUE_BYTES = 1 << 20 }; // of lines that wait; lines beyond are left out

// Initialise it with zeros and the descriptor.
struct output_queue {
  int fd;
  struct text text;  // what waits, from `written` on
  size_t written;    // bytes of `text`
  uint64_t left_out; // lines since the last one that was kept
  int error;         // errno of the first write that failed; nothing is written after that
};

// Adds a line, and writes what can be written without waiting.
void output_queue_line(struct output_queue *queue, const char *line);
// Writes what can be written without waiting. To be called when the descriptor is ready for output.
void output_queue_push(struct output_queue *queue);
bool output_queue_waits(const struct output_queue *queue);
// Adds bytes of any number, also beyond OUTPUT_QUEUE_BYTES, without writing them.
void output_queue_add(struct output_queue *queue, const char *bytes, size_t size);
// Waits until all is written. CANCELED: `stop_fd` (negative: none) is readable; TIMEOUT: the deadline has passed: what
// waits still waits. SYSTEM or LIMIT: it cannot be written, also because of an earlier line. `name` says in the
// last error what was to be written.
int output_queue_finish(struct output_queue *queue, const char *name, int stop_fd, uint64_t deadline_ns);
void output_queue_free(struct output_queue *queue);

#endif
