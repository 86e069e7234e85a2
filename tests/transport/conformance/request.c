// Requests of the suite.
#include "conformance/suite.h"

#include <string.h>

void request_init(struct transport_request *request, struct transport_peer *peer, enum weft_transfer_op op,
                  const struct transport_piece *pieces, uint32_t num_pieces) {
  memset(request, 0, sizeof *request);
  request->peer = peer;
  request->op = op;
  request->pieces = pieces;
  request->num_pieces = num_pieces;
}

bool request_ended(void *request) {
  return atomic_load(&((struct transport_request *)request)->state) != TRANSPORT_IN_FLIGHT;
}

int request_run(struct pair *pair, struct transport_request *request) {
  assert_works(suite.transport->prepare(request));
  int rc = suite.transport->post(request);
  assert_true(rc <= 0);
  if (rc == 0)
    pair_wait(pair, request_ended, request, "a request's end");
  int state = atomic_load(&request->state);
  if (rc != 0)
    assert_int_equal(state, rc);
  if (state != 0)
    assert_true(request->why[0] != '\0');
  suite.transport->unprepare(request);
  return state;
}

struct transport_piece piece_of(const struct place *local, uint64_t local_offset, const struct place *there,
                                uint64_t offset, uint64_t length) {
  const struct place *part = place_at(there, &offset);
  return (struct transport_piece){.local = local->region,
                                  .remote = part->remote,
                                  .local_address = place_address(local, local_offset),
                                  .remote_address = place_address(part, offset),
                                  .length = length};
}
