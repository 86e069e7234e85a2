// The path of a link on one host: the window is the peer's memory, so data that is written there has arrived. The peer
// may sleep, so its doorbell is rung.
#include <errno.h>
#include <sys/socket.h>

#include "ep/link/handshake_wire.h"
#include "ep/link/link.h"

static void name(const struct ep_link *link, char *text, size_t cap) {
  (void)link, (void)cap;
  text[0] = '\0';
}

static bool settle(struct ep_link *link, uint64_t op, enum ep_part part, uint64_t deadline_ns) {
  (void)link, (void)op, (void)part, (void)deadline_ns;
  return true;
}

static void publish(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t rows) {
  (void)op, (void)part, (void)rows;
  ep_doorbell_ring(ep_link_bell(link));
}

static void acknowledge(struct ep_link *link) {
  ep_doorbell_ring(ep_link_bell(link));
}

static void publish_start(struct ep_link *link, uint64_t op, uint64_t epoch) {
  (void)op, (void)epoch;
  ep_doorbell_ring(ep_link_bell(link));
}

// Other notices are words in the peer's window.
static void notify(struct ep_link *link, enum ep_notice notice) {
  static const uint64_t word = EP_CONFIRMATION;
  if (notice == EP_NOTICE_CONFIRMED) // if this fails, the peer has hung up
    send(link->socket, &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The service thread itself reads what a neighbour sends there (remote/neighbours.h), and so detects a hang-up.
static int listen_to(struct ep_link *link) {
  (void)link;
  return EPIPE;
}

static void nothing(struct ep_link *link) {
  (void)link;
}

static enum ep_link_state verdict(weft_ep_t *ep, struct ep_link *link) {
  (void)ep, (void)link;
  return EP_LINK_SILENT;
}

static int failure(const struct ep_link *link, const char **why) {
  (void)link;
  *why = "";
  return 0;
}

const struct ep_path_ops ep_path_mapped = {
    .name = name,
    .settle = settle,
    .publish = publish,
    .acknowledge = acknowledge,
    .publish_start = publish_start,
    .notify = notify,
    .listen = listen_to,
    .receive_last = nothing,
    .verdict = verdict,
    .failure = failure,
    .flush = nothing,
    .free = nothing,
};
