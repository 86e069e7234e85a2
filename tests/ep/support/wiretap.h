// A wiretap between two hosts: forwards one connection to a port of this host, and records the bytes that pass.
#ifndef TESTS_EP_RELAY_H
#define TESTS_EP_RELAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WIRETAP_ROOM = 65536 };

struct wiretap {
  int listener;
  uint16_t port, to;
  pthread_t thread;
  uint8_t said[WIRETAP_ROOM], answered[WIRETAP_ROOM]; // by who called, and by who was called
  size_t num_sent, num_answered;
};

// Listens at `port` of the loopback interface, which it chooses; ends the test on failure.
void wiretap_open(struct wiretap *relay, uint16_t to);
int wiretap_call(const struct wiretap *relay);
// When one of the two has hung up, as the relay then does: what went by may be looked at.
void wiretap_close(struct wiretap *relay);

// Whether `size` bytes stand among those that went by, either way.
bool wiretap_saw(const struct wiretap *relay, const void *bytes, size_t size);

#endif
