// A worker of a transport to storage, its peer (itself), host memory and requests, for tests.
#ifndef TESTS_TRANSPORT_STORAGE_H
#define TESTS_TRANSPORT_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"

enum { STORAGE_MAX_REGIONS = 16 };

struct storage {
  const struct transport *transport;
  struct transport_worker *worker;
  struct transport_peer *peer;
  struct transport_region *host;
  uint8_t *bytes; // `host`
  uint64_t length;
  struct transport_region *regions[STORAGE_MAX_REGIONS];
  struct transport_remote *remotes[STORAGE_MAX_REGIONS];
  uint32_t num_regions;
  uint32_t num_messages;
  char message[64]; // of the newest message
};

// A request with its pieces. Add pieces, then prepare.
struct storage_request {
  struct transport_request request;
  struct transport_piece *pieces;
  int32_t *status;
  uint32_t capacity;
  uint32_t num_done; // calls of done()
};

// Opens a worker, connects it to itself, and registers `length` bytes of host memory. Returns the result of open();
// after a failure nothing is left. Fails the test if anything else fails.
int storage_open(struct storage *storage, const char *transport, const char *const *settings, uint64_t length);
void storage_close(struct storage *storage);

// Registers and imports a file or an object; returns its index among the remotes.
uint32_t storage_file(struct storage *storage, int fd, const char *path);
uint32_t storage_object(struct storage *storage, const char *path, uint64_t length);

void storage_request(struct storage *storage, struct storage_request *request, enum weft_transfer_op op,
                     uint32_t capacity);
void storage_piece(struct storage *storage, struct storage_request *request, uint32_t remote, uint64_t at,
                   uint64_t offset, uint64_t length);
void storage_prepare(struct storage_request *request); // fails the test on an error
void storage_free(struct storage_request *request);

// Waits until the request has ended, sleeping on fd() if there is one. Returns `state`; fails the test after a minute.
int storage_wait(struct storage *storage, struct storage_request *request);
// Calls post(), which has to succeed, and waits.
int storage_run(struct storage *storage, struct storage_request *request);
// Moves one piece in a separate request. Returns 0 or the code, with its sentence in `why` [120] unless NULL.
int storage_move(struct storage *storage, enum weft_transfer_op op, uint32_t remote, uint64_t at, uint64_t offset,
                 uint64_t length, char *why);

#endif
