// A peer that lies to transports over networks: what the catalogues share. Each lie is told in a process of its own,
// which must live on; everything in its arena that was not lent must stay as it was.
#ifndef FABRIC_LIES_H
#define FABRIC_LIES_H

#include "cmocka_all.h"

#include "transport/transport.h"

enum {
  ARENA = 65536,
  LENT_AT = 16384,
  LENT = 4096,
  OTHER_AT = 32768,
  CANARY = 0x5a,
  SECRET = 0x33,
  LIE = 0x77,
  LOAN = 0x11
};

extern const struct transport *lies_transport;
extern const char *const *lies_settings;

// --- processes ---

struct lies_scenario {
  const char *name;
  void (*run)(void);
};
// What main() returns. Runs each scenario as a test, by this program once more, so that nothing is there that a thread
// of this process, such as UCX's own, has left half done. A test fails if that process dies or does not end, and says
// at which lies_step(). `argv`: of main().
int lies_main(char **argv, const struct lies_scenario *scenarios, size_t num_scenarios);
void lies_step(uint64_t number);
// In a child: ends it with the sentence unless the condition holds.
void lies_check(bool condition, const char *what);

// --- blobs: a card whose body can be changed and sealed again ---

struct blob {
  unsigned char bytes[TRANSPORT_MAX_ADDRESS + 512];
  size_t size;
};
enum { BLOB_HEAD = 12 };
static inline unsigned char *blob_body(struct blob *blob) {
  return blob->bytes + BLOB_HEAD;
}
static inline size_t blob_body_size(const struct blob *blob) {
  return blob->size - BLOB_HEAD - 4;
}
// The same kind of card with this body.
void blob_make(struct blob *blob, const struct blob *like, const void *body, size_t size);
uint64_t blob_number(struct blob *blob, size_t at, size_t size);
void blob_set(struct blob *blob, size_t at, uint64_t value, size_t size);

// --- workers ---

struct side {
  struct transport_worker *worker;
  unsigned char *arena; // of CANARY, and of SECRET where OTHER_AT is registered
  struct transport_region *lent, *other;
};
// `read_only`: what is lent.
void side_open(struct side *side, bool read_only);
void side_close(struct side *side);
void side_address(struct side *side, struct blob *blob);
void side_key(struct transport_region *region, struct blob *blob);
// The one place that connects. NULL: it was refused.
struct transport_peer *side_connect(struct side *side, const struct blob *address);
// Whether what was not lent is what it was.
void side_check(const struct side *side, const char *what);

// Drives both for a moment; `second` may be NULL.
void lies_drive(struct side *first, struct side *second, int times);
// Moves `length` bytes between the side's lent memory and there; what became of it, and never later than a while.
int lies_move(struct side *from, struct side *second, struct transport_remote *remote, enum weft_transfer_op op,
              uint64_t address, uint64_t length);

#endif
