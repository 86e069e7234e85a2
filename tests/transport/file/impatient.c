// Impatient users of the transport `file`: each has one worker after the other, with random settings, and reads,
// writes, cancels, disconnects and closes at random. Each request has a range of the file of its own, whose pages at
// both ends it shares with others. The first argument is the seed.
#include "cmocka_all.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/time/clock.h"
#include "support/file.h"
#include "support/sanitized.h"
#include "transport/transport.h"

enum {
  USERS = 3,
  RANGES = 4,
  PIECES = 6,
  BYTES = 301001, // of a range
  ALL_MS = SUPPORT_SANITIZED ? 3000 : 2000,
  LIFE_MS = 200,
  LONGEST_MS = 60000, // of a call or a request, also on a loaded machine
};

// ThreadSanitizer does not see the system calls by which liburing maps rings.
#ifdef __SANITIZE_THREAD__
enum { HAS_URING = false };
#else
enum { HAS_URING = true };
#endif

struct range {
  struct transport_request request;
  struct transport_piece pieces[PIECES];
  int32_t status[PIECES];
  uint8_t *memory;   // [BYTES], at any address
  uint8_t *contents; // [BYTES] what the file has; after a write that failed it is this, or what `memory` has, or both
  uint32_t ends;
  bool posted, cancelled, mixed, peer_gone;
  uint64_t since_ns;
};

struct user {
  uint64_t random;
  const struct transport *transport;
  struct transport_worker *worker;
  struct transport_peer *peer;
  struct transport_region *memory, *file;
  struct transport_remote *remote;
  int fd;
  uint8_t *bytes;
  struct range ranges[RANGES];
  uint32_t lives, wrote, read, cancelled;
  char error[400];
};

static uint64_t seed;
static struct user users[USERS];

static bool wrong(struct user *user, const char *what, const char *why) {
  if (!user->error[0])
    snprintf(user->error, sizeof user->error, "life %u: %s: %s", user->lives, what, why);
  return false;
}

static bool is_fine(struct user *user, const char *call, int rc) {
  return rc == 0 || wrong(user, call, weft_last_error());
}

static uint32_t draw(struct user *user, uint32_t below) {
  return (uint32_t)(random_next(&user->random) % below);
}

// --- open and close ---

static bool connect_peer(struct user *user) {
  char address[TRANSPORT_MAX_ADDRESS], key[TRANSPORT_MAX_KEY];
  size_t size = sizeof address, key_size = sizeof key;
  return is_fine(user, "address", user->transport->address(user->worker, address, &size)) &&
         is_fine(user, "connect", user->transport->connect(user->worker, address, size, NULL, &user->peer)) &&
         is_fine(user, "pack", user->transport->pack(user->file, key, &key_size)) &&
         is_fine(user, "import", user->transport->import(user->peer, key, key_size, &user->remote));
}

static bool open_worker(struct user *user) {
  static const char *const depths[] = {"depth=1", "depth=2", "depth=16", "depth=64"};
  const char *const settings[] = {HAS_URING && draw(user, 2) ? "engine=auto" : "engine=posix",
                                  depths[draw(user, 4)],
                                  draw(user, 2) ? "direct=1" : "direct=0",
                                  draw(user, 2) ? "pin=1" : "pin=0",
                                  draw(user, 4) ? "sync=none" : "sync=data",
                                  NULL};
  struct transport_options options = {.size = sizeof options, .arg = user, .settings = settings};
  options.threads = draw(user, 2);
  struct transport_memory file = {.kind = WEFT_MEMORY_FILE, .fd = user->fd, .device = -1, .path = "impatient.bin"};
  struct transport_memory memory = {
      .kind = WEFT_MEMORY_HOST, .address = user->bytes, .length = RANGES * BYTES, .fd = -1, .device = -1};
  return is_fine(user, "find", transport_find("file", &user->transport)) &&
         is_fine(user, "open", user->transport->open(&options, &user->worker)) &&
         is_fine(user, "reg", user->transport->reg(user->worker, &memory, &user->memory)) &&
         is_fine(user, "reg", user->transport->reg(user->worker, &file, &user->file)) && connect_peer(user);
}

// --- requests ---

static void count_end(struct transport_request *request) {
  struct range *range = request->arg;
  range->ends++;
}

// Pieces of any length that together are the range, in any order.
static bool prepare(struct user *user, struct range *range, enum weft_transfer_op op) {
  uint64_t base = (uint64_t)(range - user->ranges) * BYTES, at = 0;
  range->request = (struct transport_request){
      .peer = user->peer, .op = op, .pieces = range->pieces, .status = range->status, .done = count_end, .arg = range};
  for (uint32_t i = 0; i < PIECES; i++) {
    uint64_t left = BYTES - at, length = i + 1 < PIECES ? draw(user, (uint32_t)left) : left;
    uint32_t k = draw(user, i + 1);
    range->pieces[i] = range->pieces[k];
    range->pieces[k] =
        (struct transport_piece){user->memory, user->remote, (uintptr_t)range->memory + at, base + at, length};
    at += length;
  }
  range->request.num_pieces = PIECES;
  return is_fine(user, "prepare", user->transport->prepare(&range->request));
}

static void fill(struct user *user, uint8_t *bytes) {
  for (size_t at = 0; at < BYTES; at += sizeof(uint64_t)) {
    uint64_t word = random_next(&user->random);
    memcpy(bytes + at, &word, BYTES - at < sizeof word ? BYTES - at : sizeof word);
  }
}

static bool start(struct user *user, struct range *range) {
  enum weft_transfer_op op = range->mixed || draw(user, 2) ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE;
  if (range->request.own && (range->peer_gone || range->request.op != op || draw(user, 2))) {
    user->transport->unprepare(&range->request);
    range->request.own = NULL;
  }
  if (!range->request.own && !prepare(user, range, op))
    return false;
  if (op == WEFT_TRANSFER_WRITE)
    fill(user, range->memory);
  range->peer_gone = range->cancelled = false;
  range->posted = true;
  range->ends = 0;
  range->since_ns = clock_ns();
  return is_fine(user, "post", user->transport->post(&range->request));
}

static bool check_read(struct user *user, struct range *range, const uint8_t *old, const uint8_t *written) {
  bool as_before = memcmp(range->memory, old, BYTES) == 0;
  for (uint32_t i = 0; i < BYTES && !as_before; i++)
    if (range->memory[i] != old[i] && (!range->mixed || range->memory[i] != written[i]))
      return wrong(user, "read", "other bytes than were written");
  user->read++;
  return true;
}

// `contents` and `written` are one behind the other: what a failed write may have left is kept there.
static bool check_end(struct user *user, struct range *range, int state) {
  uint8_t *written = range->contents + BYTES;
  uint64_t moved = 0;
  for (uint32_t i = 0; i < PIECES; i++) {
    moved += range->status[i] == 0 ? range->pieces[i].length : 0;
    if (range->status[i] != 0 && (range->status[i] != WEFT_ERR_CANCELED || state == 0))
      return wrong(user, "a piece", weft_err_name(range->status[i]));
  }
  if (range->ends != 1)
    return wrong(user, "a request", "its end was not reported once");
  if (state != 0 && (state != WEFT_ERR_CANCELED || !range->cancelled))
    return wrong(user, weft_err_name(state), range->request.why);
  if (range->request.moved < moved)
    return wrong(user, "a request", "fewer bytes than its pieces have were counted");
  user->cancelled += state != 0;
  if (range->request.op == WEFT_TRANSFER_WRITE) {
    range->mixed = state != 0;
    memcpy(state == 0 ? range->contents : written, range->memory, BYTES);
    user->wrote += state == 0;
    return true;
  }
  if (state != 0)
    return true;
  bool good = check_read(user, range, range->contents, written);
  memcpy(range->contents, range->memory, BYTES);
  range->mixed = false;
  return good;
}

static bool check(struct user *user, struct range *range) {
  int state = range->posted ? atomic_load_explicit(&range->request.state, memory_order_acquire) : TRANSPORT_IN_FLIGHT;
  if (range->posted && state == TRANSPORT_IN_FLIGHT && clock_ns() - range->since_ns > LONGEST_MS * 1000000ull)
    return wrong(user, "a request", range->cancelled ? "does not end though it was cancelled" : "does not end");
  if (state == TRANSPORT_IN_FLIGHT)
    return true;
  range->posted = false;
  return check_end(user, range, state);
}

static bool close_worker(struct user *user) {
  for (uint32_t i = 0; i < RANGES; i++)
    user->ranges[i].cancelled = true;
  user->transport->close(user->worker);
  bool good = true;
  for (uint32_t i = 0; i < RANGES; i++) {
    struct range *range = &user->ranges[i];
    good = check(user, range) && good;
    if (range->posted)
      good = wrong(user, "a request", "is in flight after the close");
    if (range->request.own)
      user->transport->unprepare(&range->request);
    range->request.own = NULL;
    range->posted = false;
  }
  return good;
}

// --- steps ---

static bool reconnect(struct user *user) {
  for (uint32_t i = 0; i < RANGES; i++)
    user->ranges[i].cancelled = user->ranges[i].peer_gone = true;
  user->transport->disconnect(user->peer);
  return connect_peer(user);
}

static bool cancel(struct user *user, struct range *range) {
  range->cancelled = true;
  range->since_ns = clock_ns();
  user->transport->cancel(&range->request);
  return true;
}

static bool post_again(struct user *user, struct range *range) {
  if (!range->posted || atomic_load(&range->request.state) != TRANSPORT_IN_FLIGHT)
    return true;
  return user->transport->post(&range->request) == WEFT_ERR_BUSY ||
         wrong(user, "post", "is not refused for a request in flight");
}

static bool step(struct user *user) {
  struct range *range = &user->ranges[draw(user, RANGES)];
  uint32_t drawn = draw(user, 100);
  struct pollfd news = {.fd = user->transport->fd(user->worker), .events = POLLIN};
  if (!range->posted && drawn < 60)
    return start(user, range);
  if (range->posted && drawn > 85)
    return drawn < 94 ? cancel(user, range) : drawn < 99 ? post_again(user, range) : reconnect(user);
  if (drawn < 30 && user->transport->arm(user->worker) == 0)
    poll(&news, 1, (int)draw(user, 3));
  user->transport->progress(user->worker);
  return check(user, range);
}

static void *live(void *arg) {
  struct user *user = arg;
  uint64_t until_ns = clock_deadline_ms(ALL_MS), latest_ns = clock_deadline_ms(LONGEST_MS);
  bool good = true;
  while (good && (!clock_passed(until_ns) || ((!user->wrote || !user->read) && !clock_passed(latest_ns)))) {
    uint64_t end_ns = clock_deadline_ms(draw(user, LIFE_MS));
    user->lives++;
    good = open_worker(user);
    while (good && !clock_passed(end_ns))
      good = step(user);
    if (user->worker)
      good = close_worker(user) && good;
    user->worker = NULL;
  }
  return NULL;
}

static void begin(struct user *user, uint32_t index) {
  memset(user, 0, sizeof *user);
  user->random = random_mix(seed + index);
  user->fd = support_file(RANGES * BYTES, seed);
  user->bytes = malloc(RANGES * BYTES);
  assert_non_null(user->bytes);
  for (uint32_t i = 0; i < RANGES; i++) {
    struct range *range = &user->ranges[i];
    range->memory = user->bytes + (size_t)i * BYTES;
    range->contents = malloc(2 * BYTES);
    assert_non_null(range->contents);
    support_fill(range->contents, BYTES, seed + (uint64_t)i * BYTES);
  }
}

static bool end(struct user *user, uint32_t index) {
  print_message("user %u: %u lives, %u writes and %u reads succeeded, %u cancelled\n", index, user->lives, user->wrote,
                user->read, user->cancelled);
  if (user->error[0])
    print_error("user %u: %s\n", index, user->error);
  for (uint32_t i = 0; i < RANGES; i++)
    free(user->ranges[i].contents);
  free(user->bytes);
  close(user->fd);
  return !user->error[0] && user->wrote > 0 && user->read > 0;
}

static void requests_end_and_bytes_are_right(void **state) {
  (void)state;
  pthread_t threads[USERS];
  bool good = true;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (uint32_t i = 0; i < USERS; i++)
    begin(&users[i], i);
  for (uint32_t i = 0; i < USERS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, live, &users[i]), 0);
  for (uint32_t i = 0; i < USERS; i++)
    pthread_join(threads[i], NULL);
  for (uint32_t i = 0; i < USERS; i++)
    good &= end(&users[i], i);
  assert_true(good);
}

int main(int argc, char **argv) {
  seed = argc > 1 ? strtoull(argv[1], NULL, 0) : random_id();
  const struct CMUnitTest tests[] = {cmocka_unit_test(requests_end_and_bytes_are_right)};
  return cmocka_run_group_tests_name("transport_file_impatient", tests, NULL, NULL);
}
