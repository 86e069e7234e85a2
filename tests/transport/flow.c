// What the transports over networks share (transport/flow), above a network of the test's own that takes nothing.
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"
#include "transport/flow/flow.h"

static const struct transport transport = {.name = "test"};

struct network {
  struct flow_worker worker;
  struct flow_peer *peer;
  int tries, settled, severed, told; // sends; of the peer
};

static struct network network;

static int settle(struct flow_request *own, struct flow_op *op) {
  (void)own, (void)op;
  network.settled++;
  return FLOW_STARTED;
}

static int refuse(struct flow_request *own, struct flow_op *op) {
  (void)op;
  network.tries++;
  if (own->peer->lost) // as UCX has it: the endpoint is no more
    fail_msg("a peer that was severed is sent to");
  return FLOW_AGAIN;
}

static int move(struct flow_request *own, const struct transport_piece *piece, uint64_t offset, struct flow_op *op) {
  (void)own, (void)piece, (void)offset, (void)op;
  return FLOW_STARTED; // and never ends
}

static void sever(struct flow_peer *peer) {
  network.severed++;
  flow_peer_failed(peer, WEFT_ERR_PEER_LOST, "it was cut off");
}

static void count_severed(struct flow_peer *peer) {
  (void)peer;
  network.severed++;
}

static bool part(struct flow_peer *peer) {
  (void)peer;
  return true;
}

static void free_remote(struct flow_remote *remote) {
  free(remote);
}

static void on_peer(void *arg, struct transport_peer *peer, int err, const char *why) {
  (void)arg, (void)peer;
  assert_int_equal(err, WEFT_ERR_PEER_LOST);
  assert_string_equal(why, "it was cut off");
  network.told++;
}

static void open_network(void) {
  const struct transport_options options = {.size = sizeof options, .on_peer = on_peer};
  network = (struct network){.worker.wire = {.op_size = sizeof(struct flow_op),
                                             .settled_when_moved = true,
                                             .max_operation = FLOW_CHUNK,
                                             .move = move,
                                             .settle = settle,
                                             .send = refuse,
                                             .sever = sever,
                                             .part = part,
                                             .free_remote = free_remote}};
  flow_worker_init(&network.worker, &transport, &options);
  network.peer = calloc(1, sizeof *network.peer);
  assert_non_null(network.peer);
  flow_peer_init(network.peer, &network.worker);
}

// A WRITE of a few bytes to the peer.
struct writing {
  char bytes[8];
  struct flow_region region;
  struct transport_piece piece;
  struct transport_request request;
};

static void open_writing(struct writing *writing) {
  struct flow_remote *remote = calloc(1, sizeof *remote);
  assert_non_null(remote);
  *writing = (struct writing){0};
  const struct transport_memory memory = {.address = writing->bytes, .length = sizeof writing->bytes};
  flow_region_init(&writing->region, &network.worker, &memory);
  flow_remote_init(remote, network.peer);
  remote->base.length = sizeof writing->bytes;
  writing->piece = (struct transport_piece){.local = &writing->region.base,
                                            .remote = &remote->base,
                                            .local_address = (uintptr_t)writing->bytes,
                                            .length = sizeof writing->bytes};
  writing->request = (struct transport_request){
      .peer = &network.peer->base, .op = WEFT_TRANSFER_WRITE, .pieces = &writing->piece, .num_pieces = 1};
  assert_int_equal(flow_prepare(&writing->request), 0);
}

// A process that got no processor for long finds the deadline of a cancelled request in the past, and its operation
// ended well. What that wrote may not have arrived: the request is settled before it ends.
static void a_late_end_of_what_was_cancelled_is_settled(void **state) {
  (void)state;
  struct writing writing;
  open_network();
  network.worker.wire.settled_when_moved = false;
  open_writing(&writing);
  assert_int_equal(flow_post(&writing.request), 0);
  flow_break(writing.request.own, WEFT_ERR_CANCELED, "cancelled", 1); // long ago
  flow_ended(flow_op_of(writing.request.own, 0), 0, NULL);
  assert_int_equal(network.settled, 1);
  assert_int_equal(writing.request.state, TRANSPORT_IN_FLIGHT);
  flow_ended(flow_op_of(writing.request.own, 0), 0, NULL);
  assert_int_equal(writing.request.state, WEFT_ERR_CANCELED);
  assert_int_equal(network.severed, 0);
  flow_unprepare(&writing.request);
  flow_end(&network.worker);
}

// A peer that was severed settles nothing, also where only one connection to it was given up and it is not lost.
static void what_was_severed_is_not_settled(void **state) {
  (void)state;
  struct writing writing;
  open_network();
  network.worker.wire.settled_when_moved = false;
  network.worker.wire.sever = count_severed;
  open_writing(&writing);
  assert_int_equal(flow_post(&writing.request), 0);
  flow_break(writing.request.own, WEFT_ERR_CANCELED, "cancelled", 1);
  flow_progress(&network.worker);
  assert_int_equal(network.severed, 1);
  flow_ended(flow_op_of(writing.request.own, 0), WEFT_ERR_CANCELED, "it was cut off");
  assert_int_equal(network.settled, 0);
  assert_int_equal(writing.request.state, WEFT_ERR_CANCELED);
  flow_unprepare(&writing.request);
  flow_end(&network.worker);
}

// One request has data under way that never arrives, another waits until the network has room for its message. When
// the first is cancelled the peer is severed, in the midst of a progress(); the next one tells of it, and sends
// nothing.
static void what_waits_for_a_peer_that_is_severed_is_not_sent(void **state) {
  (void)state;
  struct writing moving;
  open_network();
  open_writing(&moving);
  struct transport_request waiting = {
      .peer = &network.peer->base, .op = WEFT_TRANSFER_WRITE, .message = "message", .message_size = 8};
  assert_int_equal(flow_prepare(&waiting), 0);
  struct transport_request *both[] = {&moving.request, &waiting};
  for (int i = 0; i < 2; i++)
    assert_int_equal(flow_post(both[i]), 0);
  assert_true(network.tries > 0);
  flow_break(moving.request.own, WEFT_ERR_CANCELED, "cancelled", 0); // its time is up
  flow_progress(&network.worker);
  assert_int_equal(network.severed, 1);
  assert_int_equal(waiting.state, TRANSPORT_IN_FLIGHT);
  flow_ended(flow_op_of(moving.request.own, 0), WEFT_ERR_CANCELED, "it was cut off");
  flow_progress(&network.worker);
  assert_int_equal(moving.request.state, WEFT_ERR_CANCELED);
  assert_int_equal(waiting.state, WEFT_ERR_PEER_LOST);
  assert_string_equal(waiting.why, "it was cut off");
  assert_int_equal(network.told, 1);
  for (int i = 0; i < 2; i++)
    flow_unprepare(both[i]);
  flow_end(&network.worker);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_late_end_of_what_was_cancelled_is_settled),
      cmocka_unit_test(what_was_severed_is_not_settled),
      cmocka_unit_test(what_waits_for_a_peer_that_is_severed_is_not_sent),
  };
  return cmocka_run_group_tests_name("transport_flow", tests, NULL, NULL);
}
