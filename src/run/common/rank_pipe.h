// Messages from a running rank process to its node, through a pipe: one JSON object per line, each written in one
// piece.
//   {"kind": "line", "text"}                       for the node's standard output, as it is
//   {"kind": "kill", "time_ns"}                    it is about to die as planned
//   {"kind": "progress", "phase", "step", "done", "of"}
//   {"kind": "event", "event", "time_ns", ...}     for events.jsonl
//   {"kind": "log_lost", "error"}                  the rank could not write to its log, with this errno
#ifndef RUN_COMMON_RANK_PIPE_H
#define RUN_COMMON_RANK_PIPE_H

#include <stdint.h>

#include <jansson.h>

enum { RUN_MESSAGE_MAX = 4096 }; // PIPE_BUF: longer messages would not be written in one piece

// Writes one message and takes over `json` (NULL is ignored). The message is dropped if it is too long, or if the node
// no longer reads. [any]
void run_message_send(int fd, json_t *json);

// The same for a message that may be lost. If the pipe is full because the node stands still, the message is dropped,
// so that the caller's operations go on.
void run_message_offer(int fd, json_t *json);

// Sends a line for the node's standard output. It also writes the line to its own standard output, which is the rank's
// log.
void run_message_line(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
