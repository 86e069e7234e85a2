// The other process: a worker, one region, one peer, one request.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "conformance/process.h"

static struct {
  struct end end;
  struct place place;
  struct transport_peer *peer;
  struct transport_remote *remote;
  struct transport_piece piece;
  struct transport_request request;
  bool prepared, keep, still;
  unsigned char message[64];
} own;

static int import(const struct order *order) {
  return suite.transport->import(own.peer, order->bytes, order->size, &own.remote);
}

static int open_region(const struct order *order, struct answer *answer) {
  place_show(&own.place, &own.end, (enum weft_memory_kind)order->bytes[0], order->bytes[1], order->a);
  place_fill(&own.place, order->b);
  size_t size = sizeof answer->bytes;
  int rc = suite.transport->pack(own.place.region, answer->bytes, &size);
  answer->size = (uint32_t)size;
  return rc;
}

static int start(const struct order *order) {
  if (own.prepared)
    suite.transport->unprepare(&own.request);
  own.piece = (struct transport_piece){.local = own.place.region,
                                       .remote = own.remote,
                                       .local_address = place_address(&own.place, 0),
                                       .remote_address = own.remote->address,
                                       .length = own.place.length};
  request_init(&own.request, own.peer, (enum weft_transfer_op)order->a, &own.piece, 1);
  if (order->b) {
    own.request.message = own.message;
    own.request.message_size = sizeof own.message;
  }
  int rc = suite.transport->prepare(&own.request);
  own.prepared = rc == 0;
  return rc ? rc : suite.transport->post(&own.request);
}

static uint64_t count_wrong(uint64_t seed) {
  static unsigned char bytes[1 << 16];
  uint64_t wrong = 0;
  for (uint64_t at = 0; at < own.place.length; at += sizeof bytes) {
    uint64_t left = own.place.length - at, size = left < sizeof bytes ? left : sizeof bytes;
    place_read(&own.place, at, bytes, size);
    for (uint64_t i = 0; i < size; i++)
      wrong += bytes[i] != pattern(seed, at + i);
  }
  return wrong;
}

static int carry_out(const struct order *order, struct answer *answer) {
  size_t size = sizeof answer->bytes;
  int rc = 0;
  switch (order->kind) {
  case ORDER_OPEN:
    end_open(&own.end);
    rc = suite.transport->address(own.end.worker, answer->bytes, &size);
    answer->size = (uint32_t)size;
    return rc;
  case ORDER_CONNECT:
    return suite.transport->connect(own.end.worker, order->bytes, order->size, NULL, &own.peer);
  case ORDER_REGION:
    return open_region(order, answer);
  case ORDER_IMPORT:
    return import(order);
  case ORDER_POST:
    return start(order);
  case ORDER_WAIT:
    for (uint32_t idle = 0; !request_ended(&own.request);)
      ends_rest(&own.end, NULL, -1, end_drive(&own.end), &idle);
    answer->value = (uint64_t)(int64_t)own.request.state;
    return 0;
  case ORDER_KEEP:
    own.keep = true;
    return 0;
  case ORDER_CHECK:
    answer->value = count_wrong(order->a);
    return 0;
  case ORDER_COUNT:
    answer->value = own.end.messages;
    return 0;
  case ORDER_STILL:
    own.still = true;
    return 0;
  case ORDER_CLOSE:
    if (own.prepared)
      suite.transport->unprepare(&own.request);
    own.prepared = own.keep = false;
    end_close(&own.end);
    return 0;
  case ORDER_END:
    return 0;
  }
  return WEFT_ERR_INVALID;
}

static void go_on(int socket, uint32_t *idle) {
  if (own.still)
    return;
  uint32_t events = end_drive(&own.end);
  if (own.keep && request_ended(&own.request)) {
    suite.transport->post(&own.request);
    events++;
  }
  ends_rest(&own.end, NULL, socket, events, idle);
}

int child_main(int socket) {
  static struct order order;
  static struct answer answer;
  uint32_t idle = 0;
  for (;;) {
    ssize_t got = recv(socket, &order, sizeof order, own.still || !own.end.worker ? 0 : MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      go_on(socket, &idle);
      continue;
    }
    if (got != sizeof order)
      return 0;
    own.still = false;
    memset(&answer, 0, sizeof answer);
    answer.rc = carry_out(&order, &answer);
    if (answer.rc != 0)
      snprintf(answer.why, sizeof answer.why, "%s", weft_last_error());
    send(socket, &answer, sizeof answer, MSG_NOSIGNAL);
    if (order.kind == ORDER_END)
      break;
  }
  if (own.prepared && own.end.worker)
    suite.transport->unprepare(&own.request);
  end_close(&own.end);
  return 0;
}
