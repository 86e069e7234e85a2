// Messages of a rank process to its node while it runs: JSON objects, one a line, each written whole, through a pipe.
//   {"kind": "line", "text"}                       for the node's standard output, as it is
//   {"kind": "kill", "time_ns"}                    it is about to die as planned
//   {"kind": "progress", "phase", "step", "done", "of"}
//   {"kind": "event", "event", "time_ns", ...}     for events.jsonl
#ifndef RUN_COMMON_RANK_PIPE_H
#define RUN_COMMON_RANK_PIPE_H

#include <stdint.h>

#include <jansson.h>

enum { RUN_MESSAGE_MAX = 4096 }; // PIPE_BUF: longer ones would not be written whole

// Writes one message and takes over `json` (NULL is ignored). Nobody reads any more, or it is too long: it is dropped.
// [any]
void run_message_send(int fd, json_t *json);

// The same for what may be missing: where the node stands still and the pipe is full, it is dropped, and the caller's
// operations go on.
void run_message_offer(int fd, json_t *json);

// A line for the node's standard output; it goes to this process' standard output too, which is the rank's log.
void run_message_line(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
