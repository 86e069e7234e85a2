// Two ranks that are configured as on two hosts, for tests that send messages in the name of one of them.
#ifndef TESTS_EP_STRANGERS_H
#define TESTS_EP_STRANGERS_H

#include <weft/weft.h>

#include "ep/remote/remote_link.h"

enum { RAW_PEER_DEADLINE_MS = 60000 };

struct hosts {
  weft_store_t *store;
  weft_ep_t *called, *caller; // ranks 0 and 1
  enum weft_ep_memory memory;
  const char *transport;
};

// Opens both ranks, on host memory or the given kind, but does not connect them; ends the test on failure.
void hosts_open(struct hosts *hosts);
void hosts_open_on(struct hosts *hosts, enum weft_ep_memory memory);
// Opens both with that transport (NULL: any) instead of shm, and in that store, which hosts_close() closes, instead of
// a new one.
void hosts_open_by(struct hosts *hosts, enum weft_ep_memory memory, const char *transport, weft_store_t *store);
void hosts_close(struct hosts *hosts);
// Opens another rank.
weft_ep_t *hosts_rank(struct hosts *hosts, int32_t rank, const char *host);
// Connects the caller to the called rank, and waits until the latter has the link, too; returns the called rank's link.
struct ep_link *hosts_connect(struct hosts *hosts);
// The same, but the link stays until it is released, even if it is down or in no view.
struct ep_link *hosts_connect_and_hold(struct hosts *hosts);
// The caller's end of that link.
struct ep_remote *hosts_remote(struct hosts *hosts);

// Sends a message to the peer of that link; writes the bytes, if any, into the peer's memory before.
void raw_peer_send_message(struct ep_remote *remote, const void *bytes, size_t size, struct transport_piece *piece);
// Holds a link of that rank (1), or releases it (-1).
void raw_peer_hold(weft_ep_t *ep, struct ep_link *link, int more);
// Waits until the link is down. The reason has to be a message of the peer, and to contain `text`.
void raw_peer_await_broken(const struct ep_link *link, const char *text);

// Connects to that rank's TCP listener.
int raw_peer_call(const weft_ep_t *ep);
uint16_t raw_peer_port(const weft_ep_t *ep);
// TLS over a connected socket with that key, as the caller or as the called side; NULL: the peer has another key.
struct tls *raw_peer_prove(int socket, bool calls, const uint8_t key[SECRET_KEY_SIZE]);
// Like the next two calls, within TLS.
void raw_peer_tls_send(struct tls *tls, int socket, const void *bytes, size_t size);
size_t raw_peer_tls_receive(struct tls *tls, int socket, void *bytes, size_t size);
// Connects to its listener for ranks of the same host.
int raw_peer_call_near(const weft_ep_t *ep);
void raw_peer_send(int socket, const void *bytes, size_t size);
// Reads until the other side closes; returns how many bytes arrived, as far as there was room.
size_t raw_peer_read(int socket, void *bytes, size_t size);
// The first message of `caller` to `called`, within TLS, without its transport's address and key.
struct ep_tcp_message raw_peer_hello(const weft_ep_t *caller, const weft_ep_t *called);

#endif
