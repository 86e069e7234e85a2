// A client of an object store that has next to no patience: one worker of the transport after the other, each with a
// few objects and a few requests at a time. It writes, reads, cancels, posts again, disconnects and closes at random.
// What each call returns is checked, and how each request ends, and each byte that a read has brought.
#ifndef TESTS_TRANSPORT_OBJECT_CLIENT_H
#define TESTS_TRANSPORT_OBJECT_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

enum {
  CLIENT_OBJECTS = 4,
  CLIENT_REQUESTS = 3,
  CLIENT_PIECES = 8,
  CLIENT_MOST = 11 << 20,    // bytes of an object: three parts of an upload
  CLIENT_LONGEST_MS = 60000, // of a call or a request, also on a loaded machine
};

struct client_object {
  char path[64];
  uint64_t size;
  _Atomic uint64_t written; // serial number of the last write that succeeded; 0: none has
  uint64_t posted;          // of the last one at all
  uint32_t writers, users;  // requests in flight that write it, and that use it
  struct transport_region *region;
  struct transport_remote *remote;
};

struct client_request {
  struct transport_request request;
  struct transport_piece pieces[CLIENT_PIECES];
  int32_t status[CLIENT_PIECES];
  struct client_object *objects[CLIENT_PIECES]; // that the piece belongs to
  uint64_t oldest[CLIENT_PIECES];               // READ: the oldest serial number that it may find
  uint64_t serial;                              // WRITE: of this post
  uint64_t message;                             // number of this post
  uint32_t ends, messages;                      // of this post
  bool posted, cancelled;
  bool peer_gone; // its peer was disconnected meanwhile
  uint64_t posted_ns, cancelled_ns;
  uint8_t *bytes; // [CLIENT_MOST]
};

struct client {
  uint32_t index, life;
  uint64_t random, last_serial, last_message;
  pthread_mutex_t asking; // held by a thread that queries, and for what must not happen meanwhile
  const struct transport *transport;
  struct transport_worker *worker; // NULL: there is none at present
  struct transport_peer *peer;
  struct transport_region *memory;
  uint8_t *bytes, *wanted; // [CLIENT_REQUESTS][CLIENT_MOST], [CLIENT_MOST]
  struct client_object objects[CLIENT_OBJECTS];
  struct client_request requests[CLIENT_REQUESTS];
  char prefix[32]; // of its keys in this life
  uint32_t num_objects;
  // What it has done, for the report.
  atomic_uint read, wrote;
  uint32_t lives, failed, cancels, asked, answered;
  uint64_t began_ns, longest_ns;
  char longest[32], error[400], asked_error[400];
};

void client_init(struct client *client, uint32_t index, uint64_t seed);
void client_free(struct client *client);
// Lives once: opens a worker, does something at random for `life_ms`, and closes it. False: something was wrong.
bool client_live(struct client *client, uint32_t life_ms);
// Asks for the length of one of its objects. Any thread.
void client_ask(struct client *client, uint64_t *random);

// --- between the files of the client ---

bool client_error(struct client *client, const char *what, const char *why);
uint32_t client_draw(struct client *client, uint32_t below);
void client_begin(struct client *client);                                       // a call
bool client_in_time(struct client *client, const char *call);                   // whether it ended in time
bool client_may(struct client *client, const char *call, int rc, uint32_t may); // and with 0 or a code of the bits

#define CLIENT_MAY(err) (1u << -(WEFT_ERR_##err))

// objects.c
bool client_object_make(struct client *client, struct client_object *object); // with a new key
bool client_object_connect(struct client *client, struct client_object *object);
void client_object_drop(struct client *client, struct client_object *object);
// Bytes of an object from `offset` on, as the write of that serial number leaves them.
void client_pattern(uint64_t serial, uint64_t offset, uint64_t length, uint8_t *out);

// requests.c
bool client_request_start(struct client *client, struct client_request *one);
bool client_request_cancel(struct client *client, struct client_request *one);
// If the request has ended, checks how. `*ended` may be NULL.
bool client_request_check(struct client *client, struct client_request *one, bool *ended);
void client_message(void *arg, const void *bytes, size_t size);

#endif
