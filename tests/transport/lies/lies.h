// Lies of peers: what somebody could hand to connect() and import() who has everything that a peer has, and means harm.
// Each is refused with a sentence, and nothing outside of what was lent is read, written or mapped. main.c runs the
// cases; the ends, places and other processes are the conformance suite's.
#ifndef LIES_LIES_H
#define LIES_LIES_H

#include "conformance/process.h"
#include "conformance/suite.h"

enum { LIES_BYTES = 5000 };

// The owners that workers are opened with: those of this process, and that of the other process.
#define LIES_VICTIM "agent victim 00000000000000aa"
#define LIES_LIAR   "agent liar 00000000000000bb"
#define LIES_THIRD  "agent third 00000000000000cc"

// Two workers of this process, and one of another process with a region. The victim knows both.
struct lies {
  struct pair pair; // a: the victim, b: the liar
  struct process process;
  struct transport_peer *third;
  unsigned char third_address[TRANSPORT_MAX_ADDRESS], third_key[TRANSPORT_MAX_KEY];
  size_t third_address_size, third_key_size;
};
void lies_open(struct lies *lies);
void lies_close(struct lies *lies);

// connect() of the victim. A failure has to have a sentence, and leaves nothing.
int lies_connect(struct lies *lies, const void *address, size_t size, const char *owner);
// import() of the victim, from that peer. The same holds for its failure.
int lies_import(struct transport_peer *peer, const void *key, size_t size);

// Makes the checksum of a changed card fit.
void lies_card(unsigned char *card, size_t size);

// Calls `take` with each byte of the card changed in two ways, and a checksum that fits: none may be taken.
typedef int (*lies_take_fn)(void *arg, const void *bytes, size_t size);
void lies_each_byte(const unsigned char *card, size_t size, lies_take_fn take, void *arg);

extern const struct CMUnitTest lies_address_cases[], lies_key_cases[], lies_shm_cases[], lies_cuda_cases[];
extern const size_t num_lies_address_cases, num_lies_key_cases, num_lies_shm_cases, num_lies_cuda_cases;

#endif
