// A process on another host calls a rank, or answers such a call. Its first packet is a right one, with the input's
// bytes laid over it by exclusive or. An accepted packet agrees in every size and comes from the right rank. Then the
// service thread takes whole calls: a caller that does not know the claim sends the input's bytes in pieces and in
// clear; a caller that knows it sends them within TLS.
//
// An input: a byte of choices, two of how long the packet is, then patches of two bytes of offset, one of length, and
// the bytes. In clear: after the choices, pieces, a byte of length before each.
#include "ep/link/handshake_wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ep/handshake/handshake.h"
#include "ep/handshake/steps.h"
#include "ep/host/host.h"
#include "ep/remote/remote_link.h"
#include "fuzz/support/fuzz.h"
#include "fuzz/support/ranks.h"

enum {
  OWN_RANK = 3,
  PEER_RANK = 5,
  LONGER = 64,
  CHOICE_ANSWER = 1,
  CHOICE_REFUSED = 2,
  CHOICE_YIELD = 4,
  CHOICE_CLEAR = 8,
  CHOICE_WHOLE = 16
};

static struct weft_ep make_rank(int32_t rank) {
  struct weft_ep ep = {.engine = &ep_host_engine,
                       .rank = rank,
                       .incarnation = 7,
                       .capacity = 8,
                       .experts_per_rank = 2,
                       .dtype = WEFT_EP_FP8};
  ep_layout_init(&ep.layout, 16, 256, 4, ep.dtype, WEFT_EP_COMBINE_BF16);
  return ep;
}

static struct ep_tcp_message make_right(const struct weft_ep *own, const struct weft_ep *peer, uint8_t choices) {
  enum ep_handshake_kind kind = EP_HELLO;
  if (choices & CHOICE_ANSWER)
    kind = choices & CHOICE_REFUSED ? EP_REFUSED : choices & CHOICE_YIELD ? EP_YIELD : EP_WELCOME;
  struct ep_tcp_message right = ep_tcp_message_make(peer, kind, own->incarnation);
  if (kind == EP_REFUSED)
    right.message.error = WEFT_ERR_AUTH;
  strcpy(right.transport, "ofi");
  right.address_size = 100;
  right.key_size = 50;
  return right;
}

static bool patch(uint8_t *packet, size_t size, struct fuzz_input *input) {
  bool changed = false;
  while (input->size > 0) {
    uint16_t offset;
    uint8_t length, mask[UINT8_MAX];
    fuzz_bytes(input, &offset, sizeof offset);
    fuzz_bytes(input, &length, sizeof length);
    fuzz_bytes(input, mask, length);
    for (size_t i = 0; i < length && offset % sizeof(struct ep_tcp_message) + i < size; i++) {
      packet[offset % sizeof(struct ep_tcp_message) + i] ^= mask[i];
      changed |= mask[i] != 0;
    }
  }
  return changed;
}

static void check_taken(const struct weft_ep *own, const struct ep_tcp_message *far, size_t size) {
  FUZZ_CHECK(size == sizeof *far && far->size == size && far->version == EP_LAYOUT_VERSION);
  FUZZ_CHECK(far->address_size <= sizeof far->address && far->key_size <= sizeof far->key);
  FUZZ_CHECK(far->rings_key_size <= sizeof far->rings_key);
  FUZZ_CHECK(memchr(far->transport, '\0', sizeof far->transport));
  FUZZ_CHECK(far->message.rank >= 0 && far->message.rank < (int32_t)own->capacity && far->message.rank != own->rank);
  FUZZ_CHECK(far->message.area_bytes == own->layout.area);
}

static void check_hello(const struct weft_ep *own, const struct ep_tcp_message *hello, size_t size, bool changed) {
  int rc = ep_tcp_hello_check(own, hello, size);
  if (rc != 0) {
    FUZZ_CHECK(changed || size != sizeof *hello);
    return;
  }
  check_taken(own, hello, size);
  FUZZ_CHECK(hello->message.kind == EP_HELLO && hello->message.to == own->incarnation);
}

static void check_answer(const struct weft_ep *own, const struct weft_ep *peer, const struct ep_tcp_message *answer,
                         size_t size, bool changed) {
  bool yield = true;
  int rc = ep_tcp_answer_check(own, answer, size, peer->rank, peer->incarnation, &yield);
  if (rc != 0) {
    FUZZ_CHECK(!yield && rc <= WEFT_ERR_INVALID && rc >= WEFT_ERR_COMPACTED);
    for (const char *at = weft_last_error(); *at; at++)
      FUZZ_CHECK((unsigned char)*at >= ' ');
    FUZZ_CHECK(changed || size != sizeof *answer || answer->message.kind == EP_REFUSED);
    return;
  }
  check_taken(own, answer, size);
  FUZZ_CHECK(answer->message.rank == peer->rank && answer->message.incarnation == peer->incarnation);
  FUZZ_CHECK(answer->message.kind == (yield ? EP_YIELD : EP_WELCOME));
}

// --- whole calls ---

static void open_call(struct ep_handshake *handshake, int *caller) {
  int ends[2];
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  ep_handshake_begin(handshake, ends[0]);
  *caller = ends[1];
}

// A caller that does not know the claim gets no further than its first message, and receives only messages of TLS.
static void call_in_clear(weft_ep_t *ep, struct fuzz_input *input) {
  struct ep_handshake handshake;
  int caller, rc = TLS_WANTS_READ;
  open_call(&handshake, &caller);
  while (input->size > 0 && rc > 0) {
    uint8_t length, bytes[UINT8_MAX];
    fuzz_bytes(input, &length, sizeof length);
    fuzz_bytes(input, bytes, length);
    if (length > 0 && send(caller, bytes, length, MSG_NOSIGNAL) < 0)
      break;
    rc = ep_answer_tcp(ep, &handshake);
    FUZZ_CHECK(rc != 0 && handshake.stage < EP_HANDSHAKE_KNOWN && !handshake.received);
  }
  uint64_t magic;
  char answer[4096];
  ssize_t size = recv(caller, answer, sizeof answer, 0);
  const struct ep_tcp_message message = ep_tcp_message_make(ep, EP_REFUSED, 0);
  for (ssize_t i = 0; i + (ssize_t)sizeof magic <= size; i++)
    FUZZ_CHECK(memcmp(answer + i, &message.magic, sizeof magic) != 0);
  ep_handshake_end(&handshake);
  close(caller);
}

// Both ends of the handshake, in turn.
static struct tls *prove(weft_ep_t *ep, struct ep_handshake *handshake, int caller) {
  struct tls *tls;
  FUZZ_CHECK(tls_open(&tls, caller, true, EP_HANDSHAKE_PROTOCOL, ep->links.tcp_key) == 0);
  for (int rc = TLS_WANTS_READ; rc > 0 || handshake->stage < EP_HANDSHAKE_PROVED;) {
    rc = rc > 0 ? tls_handshake(tls) : rc;
    FUZZ_CHECK(rc >= 0 && ep_answer_tcp(ep, handshake) > 0);
  }
  return tls;
}

static void call_within_tls(const struct fuzz_ranks *ranks, const uint8_t *packet, size_t size) {
  struct ep_handshake handshake;
  int caller, rc = TLS_WANTS_READ;
  open_call(&handshake, &caller);
  struct tls *tls = prove(ranks->own, &handshake, caller);
  for (size_t at = 0, sent = 0; at < size && tls_write(tls, packet + at, size - at, &sent) == 0; at += sent)
    rc = rc > 0 ? ep_answer_tcp(ranks->own, &handshake) : rc;
  shutdown(caller, SHUT_WR);
  for (int i = 0; i < 4 && rc > 0; i++)
    rc = ep_answer_tcp(ranks->own, &handshake);
  FUZZ_CHECK(rc <= 0); // it has become a link, or ends
  if (rc < 0)
    ep_handshake_end(&handshake);
  tls_close(tls);
  close(caller);
  fuzz_ranks_part(ranks);
}

// What the peer would send, if it called.
static struct ep_tcp_message make_call(const struct fuzz_ranks *ranks) {
  struct ep_tcp_message right = ep_tcp_message_make(ranks->peer, EP_HELLO, ranks->own->incarnation);
  struct ep_net *net;
  FUZZ_CHECK(ep_net_open(ranks->peer, "shm", &ep_remote_events, &net) == 0);
  strcpy(right.transport, "shm");
  memcpy(right.address, net->address, net->address_size);
  right.address_size = (uint32_t)net->address_size;
  right.key_size = 50;
  return right;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct weft_ep own, peer;
  if (own.capacity == 0) {
    own = make_rank(OWN_RANK);
    peer = make_rank(PEER_RANK);
  }
  struct fuzz_input input = {(const char *)data, size};
  uint8_t choices;
  uint16_t shorter; // 0: the right length
  fuzz_bytes(&input, &choices, sizeof choices);
  if (choices & CHOICE_CLEAR) {
    call_in_clear(fuzz_ranks()->own, &input);
    return 0;
  }
  fuzz_bytes(&input, &shorter, sizeof shorter);
  bool whole = choices & CHOICE_WHOLE;
  const struct ep_tcp_message right = whole ? make_call(fuzz_ranks()) : make_right(&own, &peer, choices);
  size_t length = sizeof right - shorter % sizeof right;
  if (shorter % 16 == 15)
    length = sizeof right + shorter / 16 % LONGER;
  uint8_t *packet = calloc(1, length); // of this very size, so that a read behind it shows
  memcpy(packet, &right, length < sizeof right ? length : sizeof right);
  bool changed = patch(packet, length, &input);
  if (whole)
    call_within_tls(fuzz_ranks(), packet, length);
  else if (choices & CHOICE_ANSWER)
    check_answer(&own, &peer, (struct ep_tcp_message *)packet, length, changed);
  else
    check_hello(&own, (struct ep_tcp_message *)packet, length, changed);
  free(packet);
  return 0;
}
