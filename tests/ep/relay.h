// Somebody on the way between two hosts: forwards one connection to a port of this host, and keeps what goes by.
#ifndef TESTS_EP_RELAY_H
#define TESTS_EP_RELAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RELAY_ROOM = 65536 };

struct relay {
  int listener;
  uint16_t port, to;
  pthread_t thread;
  uint8_t said[RELAY_ROOM], answered[RELAY_ROOM]; // by who called, and by who was called
  size_t num_said, num_answered;
};

// Listens at `port` of the loopback interface, which it chooses; ends the test on failure.
void relay_open(struct relay *relay, uint16_t to);
int relay_call(const struct relay *relay);
// When one of the two has hung up, as the relay then does: what went by may be looked at.
void relay_close(struct relay *relay);

// Whether `size` bytes stand among those that went by, either way.
bool relay_saw(const struct relay *relay, const void *bytes, size_t size);

#endif
