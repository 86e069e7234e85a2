// Over libfabric's TCP, a read ends although only part of it has arrived and its target sends no more: it is cancelled,
// disconnected, or ends with its worker. libfabric 1.17 faults when it closes such a connection itself.
#include <string.h>
#include <sys/mman.h>

#include "cmocka_all.h"
#include "support/wait.h"
#include "transport/transport.h"

enum { BYTES = 32 << 20 }; // more than sockets hold

static const struct transport *transport;

struct end {
  struct transport_worker *worker;
  struct transport_region *region;
  unsigned char *memory;
  int tells; // of peers that were lost
};

struct ends {
  struct end reader, target;
  struct transport_peer *peer;
  struct transport_remote *remote;
  struct transport_piece pieces[2];
  struct transport_request requests[2]; // the second is for what comes afterwards
  bool drive_target;
};

static void works(int rc) {
  if (rc != 0)
    fail_msg("%s", weft_last_error());
}

static void on_peer(void *arg, struct transport_peer *peer, int err, const char *why) {
  (void)peer, (void)err, (void)why;
  ((struct end *)arg)->tells++;
}

static void open_end(struct end *end, int fill) {
  static const char *const settings[] = {"provider=tcp", NULL};
  const struct transport_options options = {
      .size = sizeof options, .on_peer = on_peer, .arg = end, .settings = settings};
  end->memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(end->memory != MAP_FAILED);
  memset(end->memory, fill, BYTES);
  works(transport->open(&options, &end->worker));
  const struct transport_memory memory = {.kind = WEFT_MEMORY_HOST, .address = end->memory, .length = BYTES, .fd = -1};
  works(transport->reg(end->worker, &memory, &end->region));
}

static void prepare(struct ends *ends, int i) {
  ends->pieces[i] = (struct transport_piece){.local = ends->reader.region,
                                             .remote = ends->remote,
                                             .local_address = (uintptr_t)ends->reader.memory,
                                             .remote_address = ends->remote->address,
                                             .length = BYTES};
  ends->requests[i] = (struct transport_request){
      .peer = ends->peer, .op = WEFT_TRANSFER_READ, .pieces = &ends->pieces[i], .num_pieces = 1};
  works(transport->prepare(&ends->requests[i]));
}

static void connect_ends(struct ends *ends) {
  unsigned char bytes[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof bytes;
  works(transport->address(ends->target.worker, bytes, &size));
  works(transport->connect(ends->reader.worker, bytes, size, NULL, &ends->peer));
  size = TRANSPORT_MAX_KEY;
  works(transport->pack(ends->target.region, bytes, &size));
  works(transport->import(ends->peer, bytes, size, &ends->remote));
}

static bool drive(struct ends *ends, bool has_come) {
  transport->progress(ends->reader.worker);
  if (ends->drive_target)
    transport->progress(ends->target.worker);
  return has_come;
}

static bool some_has_come(void *arg) {
  struct ends *ends = arg;
  return drive(ends, *(volatile unsigned char *)ends->reader.memory == 7);
}

static bool has_ended(void *arg) {
  struct ends *ends = arg;
  return drive(ends, atomic_load(&ends->requests[0].state) != TRANSPORT_IN_FLIGHT);
}

static bool other_has_ended(void *arg) {
  struct ends *ends = arg;
  return drive(ends, atomic_load(&ends->requests[1].state) != TRANSPORT_IN_FLIGHT);
}

static void drive_on(struct ends *ends) {
  for (int i = 0; i < 1000; i++)
    drive(ends, false);
}

// A read of which a part has come, all that comes before the target moves again.
static void begin(struct ends *ends) {
  memset(ends, 0, sizeof *ends);
  works(transport_find("ofi", &transport));
  open_end(&ends->reader, 1);
  open_end(&ends->target, 7);
  connect_ends(ends);
  prepare(ends, 0);
  works(transport->post(&ends->requests[0]));
  ends->drive_target = true;
  assert_true(support_wait(some_has_come, ends, SUPPORT_DEADLINE_MS));
  ends->drive_target = false;
  drive_on(ends);
  assert_int_equal(ends->requests[0].state, TRANSPORT_IN_FLIGHT);
}

// What has ended touches nothing any more, also when the target goes on.
static void expect_end(struct ends *ends, int state) {
  assert_int_equal(atomic_load(&ends->requests[0].state), state);
  transport->unprepare(&ends->requests[0]);
  assert_int_equal(mprotect(ends->reader.memory, BYTES, PROT_NONE), 0);
}

static void finish(struct ends *ends) {
  if (ends->reader.worker)
    transport->close(ends->reader.worker);
  transport->close(ends->target.worker);
  munmap(ends->reader.memory, BYTES);
  munmap(ends->target.memory, BYTES);
}

// And the peer stays.
static void test_cancelled(void **state) {
  (void)state;
  struct ends ends;
  begin(&ends);
  transport->cancel(&ends.requests[0]);
  assert_true(support_wait(has_ended, &ends, SUPPORT_DEADLINE_MS));
  expect_end(&ends, WEFT_ERR_CANCELED);
  ends.drive_target = true;
  drive_on(&ends);
  assert_int_equal(mprotect(ends.reader.memory, BYTES, PROT_READ | PROT_WRITE), 0);
  memset(ends.reader.memory, 1, BYTES);
  prepare(&ends, 1);
  works(transport->post(&ends.requests[1]));
  assert_true(support_wait(other_has_ended, &ends, SUPPORT_DEADLINE_MS));
  assert_int_equal(ends.requests[1].state, 0);
  assert_memory_equal(ends.reader.memory, ends.target.memory, BYTES);
  assert_int_equal(ends.reader.tells, 0);
  transport->unprepare(&ends.requests[1]);
  finish(&ends);
}

static void test_disconnected(void **state) {
  (void)state;
  struct ends ends;
  begin(&ends);
  transport->disconnect(ends.peer);
  assert_true(support_wait(has_ended, &ends, SUPPORT_DEADLINE_MS));
  expect_end(&ends, WEFT_ERR_CANCELED);
  ends.drive_target = true;
  drive_on(&ends);
  finish(&ends);
}

static void test_its_worker_is_closed(void **state) {
  (void)state;
  struct ends ends;
  begin(&ends);
  transport->close(ends.reader.worker);
  ends.reader.worker = NULL;
  expect_end(&ends, WEFT_ERR_CANCELED);
  for (int i = 0; i < 1000; i++)
    transport->progress(ends.target.worker);
  finish(&ends);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cancelled),
      cmocka_unit_test(test_disconnected),
      cmocka_unit_test(test_its_worker_is_closed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
