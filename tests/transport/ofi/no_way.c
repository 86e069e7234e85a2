// Over libfabric's TCP, peers to which a connection cannot be started or is never made are disconnected and connected
// again, and the process goes on. ofi_rxm of libfabric 1.17 faults when it removes the name of such a peer.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "base/wire/crc32c.h"
#include "base/wire/wire.h"
#include "cmocka_all.h"
#include "support/wait.h"
#include "transport/transport.h"

enum { BYTES = 4096, SUM = 4, A_WHILE_MS = 50, TIMES = 3 };

static const struct transport *transport;
static unsigned char here[BYTES], there[BYTES];

struct ends {
  struct transport_worker *worker, *target;
  struct transport_region *local, *region;
  struct transport_peer *peer;
  struct transport_remote *remote;
  struct transport_piece piece;
  struct transport_request request;
};

static void works(int rc) {
  if (rc != 0)
    fail_msg("%s", weft_last_error());
}

static void open_end(struct transport_worker **worker, struct transport_region **region, void *memory) {
  static const char *const settings[] = {"provider=tcp", NULL};
  const struct transport_options options = {.size = sizeof options, .settings = settings};
  const struct transport_memory host = {.kind = WEFT_MEMORY_HOST, .address = memory, .length = BYTES, .fd = -1};
  works(transport->open(&options, worker));
  works(transport->reg(*worker, &host, region));
}

static int open_ends(void **state) {
  static struct ends ends;
  memset(&ends, 0, sizeof ends);
  works(transport_find("ofi", &transport));
  open_end(&ends.worker, &ends.local, here);
  open_end(&ends.target, &ends.region, there);
  *state = &ends;
  return 0;
}

static int close_ends(void **state) {
  struct ends *ends = *state;
  transport->close(ends->worker);
  transport->close(ends->target);
  return 0;
}

// The target's address, in which every name has another IPv4 address, unless that is 0.0.0.0, or another port, unless
// that is 0. Skips where names are no such ones.
static size_t make_address(const struct ends *ends, uint8_t *bytes, const char *ip, uint16_t port) {
  size_t size = TRANSPORT_MAX_ADDRESS, found = 0;
  works(transport->address(ends->target, bytes, &size));
  struct in_addr address;
  assert_int_equal(inet_pton(AF_INET, ip, &address), 1);
  for (size_t at = 0; at + sizeof(struct sockaddr_in) <= size - SUM; at++) {
    struct sockaddr_in name;
    memcpy(&name, bytes + at, sizeof name);
    if (name.sin_family != AF_INET || memcmp(name.sin_zero, "\0\0\0\0\0\0\0\0", sizeof name.sin_zero) != 0 ||
        name.sin_port == 0 || name.sin_addr.s_addr == 0)
      continue;
    name.sin_addr = address.s_addr ? address : name.sin_addr;
    name.sin_port = port ? htons(port) : name.sin_port;
    memcpy(bytes + at, &name, sizeof name);
    at += sizeof name - 1;
    found++;
  }
  if (found == 0)
    skip();
  struct wire_writer end = {.bytes = bytes, .capacity = size, .at = size - SUM};
  wire_put_number(&end, crc32c(0, bytes, size - SUM), SUM);
  return size;
}

static void connect_to(struct ends *ends, const uint8_t *address, size_t size) {
  uint8_t key[TRANSPORT_MAX_KEY];
  size_t key_size = sizeof key;
  works(transport->connect(ends->worker, address, size, NULL, &ends->peer));
  works(transport->pack(ends->region, key, &key_size));
  works(transport->import(ends->peer, key, key_size, &ends->remote));
  ends->piece = (struct transport_piece){.local = ends->local,
                                         .remote = ends->remote,
                                         .local_address = (uintptr_t)here,
                                         .remote_address = ends->remote->address,
                                         .length = BYTES};
  ends->request = (struct transport_request){
      .peer = ends->peer, .op = WEFT_TRANSFER_WRITE, .pieces = &ends->piece, .num_pieces = 1};
  works(transport->prepare(&ends->request));
}

static bool has_ended(void *arg) {
  struct ends *ends = arg;
  transport->progress(ends->worker);
  transport->progress(ends->target);
  return atomic_load(&ends->request.state) != TRANSPORT_IN_FLIGHT;
}

static void drive_for_a_while(struct ends *ends) {
  for (uint64_t until = clock_deadline_ms(A_WHILE_MS); !clock_passed(until);)
    has_ended(ends);
}

static void disconnect(struct ends *ends) {
  transport->unprepare(&ends->request);
  transport->disconnect(ends->peer);
  drive_for_a_while(ends);
}

// Tries to write to it, and gives up.
static void try_and_leave(struct ends *ends, const uint8_t *address, size_t size) {
  connect_to(ends, address, size);
  if (transport->post(&ends->request) == 0) {
    drive_for_a_while(ends);
    transport->cancel(&ends->request);
    assert_true(support_wait(has_ended, ends, SUPPORT_DEADLINE_MS));
    assert_int_not_equal(atomic_load(&ends->request.state), 0);
  }
  disconnect(ends);
}

static void write_to_the_target(struct ends *ends) {
  uint8_t address[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof address;
  works(transport->address(ends->target, address, &size));
  memset(here, 7, sizeof here);
  memset(there, 0, sizeof there);
  connect_to(ends, address, size);
  works(transport->post(&ends->request));
  assert_true(support_wait(has_ended, ends, SUPPORT_DEADLINE_MS));
  assert_int_equal(atomic_load(&ends->request.state), 0);
  assert_memory_equal(here, there, BYTES);
  disconnect(ends);
}

// A connection from loopback to another network is refused at once.
static void test_no_connection_can_be_begun(void **state) {
  struct ends *ends = *state;
  uint8_t address[TRANSPORT_MAX_ADDRESS];
  size_t size = make_address(ends, address, "192.0.2.1", 0);
  for (int i = 0; i < TIMES; i++) {
    try_and_leave(ends, address, size);
    connect_to(ends, address, size); // and is let go of without an operation
    disconnect(ends);
    write_to_the_target(ends);
  }
}

// A port at which nobody listens.
static void test_no_connection_is_made(void **state) {
  struct ends *ends = *state;
  uint8_t address[TRANSPORT_MAX_ADDRESS];
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof name;
  int holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(holder, (struct sockaddr *)&name, length), 0);
  assert_int_equal(getsockname(holder, (struct sockaddr *)&name, &length), 0);
  size_t size = make_address(ends, address, "127.0.0.1", ntohs(name.sin_port));
  for (int i = 0; i < TIMES; i++) {
    try_and_leave(ends, address, size);
    write_to_the_target(ends);
  }
  close(holder);
}

int main(void) {
  setenv("FI_TCP_IFACE", "lo", 1); // from where no other network is reached
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_no_connection_can_be_begun, open_ends, close_ends),
      cmocka_unit_test_setup_teardown(test_no_connection_is_made, open_ends, close_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
