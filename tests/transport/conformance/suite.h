// One suite for all transports: two workers of one process (or one that talks to itself), and workers in other
// processes. main.c runs every case for each kind of memory that the transport reaches.
#ifndef CONFORMANCE_SUITE_H
#define CONFORMANCE_SUITE_H

#include "cmocka_all.h"

#include "device/device.h"
#include "support/sanitized.h"
#include "transport/transport.h"

enum { DEADLINE_MS = 60000, MAX_SETTINGS = 16, MAX_PEER_EVENTS = 16 };

struct suite {
  const struct transport *transport;
  const char *name;
  const char *settings[MAX_SETTINGS + 1];
  struct transport_abilities abilities;
  enum weft_memory_kind kind; // of the peer's memory
  enum weft_memory_kind local_kind;
  bool plain; // HOST: without a descriptor
  uint64_t seed;
  const char *owner; // of the workers that are opened; NULL: nobody
};
extern struct suite suite;

#define HAS(flag) ((suite.abilities.flags & TRANSPORT_##flag) != 0)
// Ends the case as skipped, with the reason.
#define NEEDS(condition, reason)                                                                                       \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      print_message("not for %s: " reason "\n", suite.name);                                                           \
      skip();                                                                                                          \
    }                                                                                                                  \
  } while (0)

// How often: of objects, each of which is an exchange with a server, a tenth.
static inline uint32_t times(uint32_t count) {
  return suite.kind != WEFT_MEMORY_OBJECT ? count : count < 20 ? 2 : count / 10;
}

// --- ends: end.c ---

// A worker, and what came to it.
struct end {
  struct transport_worker *worker;
  const char *owner;
  void (*hook)(struct end *end, const void *bytes, size_t size);
  void *hook_arg;
  uint64_t messages;
  uint32_t peer_events;
  struct {
    struct transport_peer *peer;
    int err;
    uint64_t messages; // that had come
  } told[MAX_PEER_EVENTS];
};

void end_open(struct end *end);
void end_close(struct end *end);
struct transport_peer *end_connect(struct end *from, struct end *to);
// A loop that waits calls it behind each round that had `events`, with a count of its own: after many rounds without
// one it sleeps, until an end (NULL: none) has something to do or the socket (-1: none) has something to read, 1 ms at
// most.
void ends_rest(struct end *a, struct end *b, int socket, uint32_t events, uint32_t *idle);

// Two ends that know each other; `b` is `a` where the transport reaches only itself, or when asked for.
struct pair {
  struct end ends[2];
  struct end *a, *b;
  struct transport_peer *to_b, *to_a; // from a, from b
};
void pair_open(struct pair *pair, bool loopback);
void pair_close(struct pair *pair);
// progress(), and the number of events; 0 without a worker.
uint32_t end_drive(struct end *end);
uint32_t pair_drive(struct pair *pair);
void pair_drive_on(struct pair *pair, int times);
// Until a transport that waits for a server has heard from it, or for a moment; of others nothing.
void pair_sleep(struct pair *pair);
// Drives both until it holds; fails the test with `what` at the deadline.
void pair_wait(struct pair *pair, bool (*condition)(void *arg), void *arg, const char *what);

// Checks that it worked, with the sentence of the failure.
#define assert_works(call)                                                                                             \
  do {                                                                                                                 \
    int works_rc_ = (call);                                                                                            \
    if (works_rc_ != 0)                                                                                                \
      fail_msg("%s: %s: %s", #call, weft_err_name(works_rc_), weft_last_error());                                      \
  } while (0)

// --- memory: place.c ---

// A region of `length` bytes at `end`, and how the other end knows it. Host memory stands between guard bytes. Objects
// are written as a whole: where a case writes parts of a place, the place is made of an object for each.
struct place {
  struct end *end;
  enum weft_memory_kind kind;
  uint64_t length;
  unsigned char *mapping, *bytes; // HOST
  struct device_window window;    // CUDA
  size_t mapping_size;
  int fd;
  char path[128];
  struct transport_region *region;
  struct transport_remote *remote; // NULL: it was not made known
  struct place *parts;             // OBJECT, in parts: regions of their own; this one has none
  uint32_t num_parts;
};
// Whether what is written to the place has to begin at byte 0, and becomes all of it.
static inline bool place_is_whole(const struct place *place) {
  return place->kind == WEFT_MEMORY_OBJECT;
}
bool place_can(enum weft_memory_kind kind);
// `peer`, of the other end, imports it; NULL: local only.
void place_open(struct place *place, struct end *end, struct transport_peer *peer, uint64_t length);
// The same for a region of that kind that others learn of by other means.
void place_show(struct place *place, struct end *end, enum weft_memory_kind kind, bool plain, uint64_t length);
void place_close(struct place *place);
void place_forget(struct place *place); // takes the region back, and keeps the memory
uint64_t place_address(const struct place *place, uint64_t offset);
void place_write(struct place *place, uint64_t offset, const void *bytes, size_t size);
void place_read(struct place *place, uint64_t offset, void *bytes, size_t size);
void place_fill(struct place *place, uint64_t seed);
// Every byte of the range is what the seed says.
void place_check(struct place *place, uint64_t offset, uint64_t size, uint64_t seed, uint64_t seed_offset);
void place_check_guards(const struct place *place);

// --- places of objects: parts.c ---

// place_open() for writes of `part` bytes each, which divides the length, that begin at its multiples.
void place_open_parts(struct place *place, struct end *end, struct transport_peer *peer, uint64_t length,
                      uint64_t part);
// Where a byte of it is: the place itself, or the part, and the offset there.
const struct place *place_at(const struct place *place, uint64_t *offset);
// The peer has gone, and with it what was known of the region; with its worker the region too.
void place_lost_peer(struct place *place);
void place_lost_worker(struct place *place);
void place_write_object(const struct place *place, uint64_t offset, const void *from, size_t size);
void place_read_object(const struct place *place, uint64_t offset, void *to, size_t size);
// Each object is what one of the seeds says: it was changed wholly or not at all.
void place_check_either(const struct place *place, uint64_t seed, uint64_t other_seed);
// The object has that many bytes.
void place_check_end(const struct place *place, uint64_t length);

// --- two ends that know each other, with a place at each; the one at `b` is known to `a` ---

struct route {
  struct pair pair;
  struct place local, there;
};
void route_open(struct route *route, uint64_t length);
// The one at `b` is for writes of `part` bytes each, as place_open_parts() has it.
void route_open_parts(struct route *route, uint64_t length, uint64_t part);
void route_close(struct route *route);

// The byte at a position of the endless random data that belongs to a seed.
static inline uint64_t pattern_word(uint64_t seed, uint64_t word) {
  uint64_t x = (word + 1) * UINT64_C(0x9E3779B97F4A7C15) ^ seed * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 29)) * UINT64_C(0x94D049BB133111EB);
  return x ^ (x >> 32);
}
static inline unsigned char pattern(uint64_t seed, uint64_t position) {
  return (unsigned char)(pattern_word(seed, position / 8) >> (8 * (position % 8)));
}
void pattern_fill(unsigned char *bytes, uint64_t seed, uint64_t position, uint64_t size);

// --- requests: request.c ---

void request_init(struct transport_request *request, struct transport_peer *peer, enum weft_transfer_op op,
                  const struct transport_piece *pieces, uint32_t num_pieces);
bool request_ended(void *request);
// prepare, post, drive until it has ended, unprepare; its state.
int request_run(struct pair *pair, struct transport_request *request);
struct transport_piece piece_of(const struct place *local, uint64_t local_offset, const struct place *there,
                                uint64_t offset, uint64_t length);

// --- cases ---

#define CASE(name) cmocka_unit_test(name)
extern const struct CMUnitTest data_cases[], message_cases[], life_cases[], thread_cases[], bad_cases[],
    process_cases[], random_cases[];
extern const size_t num_data_cases, num_message_cases, num_life_cases, num_thread_cases, num_bad_cases,
    num_process_cases, num_random_cases;

// In a process of its own: child.c
int child_main(int socket);

#endif
