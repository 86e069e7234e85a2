// Another process with a worker, which does what it is asked to: process.c starts it, child.c is it.
#ifndef CONFORMANCE_PROCESS_H
#define CONFORMANCE_PROCESS_H

#include <sys/types.h>

#include "conformance/suite.h"

enum order_kind {
  ORDER_OPEN,    // -> its address
  ORDER_CONNECT, // bytes: an address
  ORDER_REGION,  // a: length, b: seed -> its key
  ORDER_IMPORT,  // bytes: a key
  ORDER_POST,    // a: enum weft_transfer_op, b: a message too: starts one of its whole region
  ORDER_WAIT,    // -> value: state of that request
  ORDER_KEEP,    // posts it again and again from now on
  ORDER_CHECK,   // a: seed -> value: bytes that differ
  ORDER_COUNT,   // -> value: messages that came
  ORDER_STILL,   // no progress from now on, until the next order
  ORDER_CLOSE,   // the worker
  ORDER_END,
};

struct order {
  enum order_kind kind;
  uint64_t a, b;
  uint32_t size;
  unsigned char bytes[TRANSPORT_MAX_ADDRESS];
};

struct answer {
  int rc;
  uint64_t value;
  char why[200];
  uint32_t size;
  unsigned char bytes[TRANSPORT_MAX_ADDRESS];
};

struct process {
  pid_t pid;
  int socket;
  struct end *driven; // progresses while an answer is waited for; may be NULL
};

// Starts it with a worker; `end` is driven while it is waited for.
void process_start(struct process *process, struct end *end);
// Gives an order and waits for the answer, which must not be a failure.
struct answer *process_ask(struct process *process, enum order_kind kind, uint64_t a, uint64_t b, const void *bytes,
                           size_t size);
void process_kill(struct process *process); // SIGKILL, and reaped
void process_end(struct process *process);  // as it wants to end

#endif
