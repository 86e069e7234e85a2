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
  uint8_t sent[WIRETAP_ROOM], answered[WIRETAP_ROOM]; // by the caller, and by the called side
  size_t num_sent, num_answered;
};

// Listens at a port of the loopback interface, which it chooses; ends the test on failure.
void wiretap_open(struct wiretap *relay, uint16_t to);
int wiretap_call(const struct wiretap *relay);
// Waits until one side has closed and the relay has closed, too. Then the recorded bytes may be read.
void wiretap_close(struct wiretap *relay);

// Whether the `size` bytes are among the recorded ones, in either direction.
bool wiretap_saw(const struct wiretap *relay, const void *bytes, size_t size);

#endif
