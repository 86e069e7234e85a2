// Waits for a condition in tests, with a deadline that is long enough for a loaded machine.
#ifndef SUPPORT_WAIT_H
#define SUPPORT_WAIT_H

#include <stdbool.h>
#include <stdint.h>

enum { SUPPORT_DEADLINE_MS = 60000 };

// Calls `condition` repeatedly until it holds. False: the deadline passed.
bool support_wait(bool (*condition)(void *arg), void *arg, uint32_t timeout_ms);

// A TCP port of 127.0.0.1 that was free a moment ago, and that no test in Python has; 0: there is none.
uint16_t support_free_port(void);

// Whether 127.0.0.1:`port` accepts connections.
bool support_port_open(uint16_t port);

#endif
