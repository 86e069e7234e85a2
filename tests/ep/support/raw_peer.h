// Two ranks that are configured as on two hosts, for tests that send messages in the place of one of them.
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

// Opens both, not connected; ends the test on failure. On host memory, or that.
void hosts_open(struct hosts *hosts);
void hosts_open_on(struct hosts *hosts, enum weft_ep_memory memory);
// By that transport (NULL: any) instead of shm, and in that store, which hosts_close closes, instead of a new one.
void hosts_open_by(struct hosts *hosts, enum weft_ep_memory memory, const char *transport, weft_store_t *store);
void hosts_close(struct hosts *hosts);
// Opens one more.
weft_ep_t *hosts_rank(struct hosts *hosts, int32_t rank, const char *host);
// Has the caller connect to the called one, which has the link too by then; returns that one.
struct ep_link *hosts_connect(struct hosts *hosts);
// The same; and the link stays until it is let go of, though it may be down, and in no view.
struct ep_link *hosts_connect_and_hold(struct hosts *hosts);
// The caller's side of that link.
struct ep_remote *hosts_remote(struct hosts *hosts);

// Sends a message to the peer of that link, and if there are any, bytes into its memory before.
void raw_peer_say(struct ep_remote *remote, const void *bytes, size_t size, struct transport_piece *piece);
// Holds a link of that rank (1), or lets go of it (-1).
void raw_peer_hold(weft_ep_t *ep, struct ep_link *link, int more);
// Waits until the link is down; it has to be for what its peer sent, and the reason has to say `text`.
void raw_peer_await_broken(const struct ep_link *link, const char *text);

// Connects to that rank's TCP listener.
int raw_peer_call(const weft_ep_t *ep);
uint16_t raw_peer_port(const weft_ep_t *ep);
// TLS over a connected socket with that key, as who called or as who was called; NULL: the other has another key.
struct tls *raw_peer_prove(int socket, bool calls, const uint8_t key[SECRET_KEY_SIZE]);
// As the next two, within TLS.
void raw_peer_tls_send(struct tls *tls, int socket, const void *bytes, size_t size);
size_t raw_peer_tls_receive(struct tls *tls, int socket, void *bytes, size_t size);
// Connects to its listener for ranks of the same host.
int raw_peer_call_near(const weft_ep_t *ep);
void raw_peer_send(int socket, const void *bytes, size_t size);
// Reads until the other side closes; returns how many bytes came, as far as they have room.
size_t raw_peer_read(int socket, void *bytes, size_t size);
// What `caller` says first to `called`, within TLS; its transport's address and key are not in it.
struct ep_tcp_message raw_peer_hello(const weft_ep_t *caller, const weft_ep_t *called);

#endif
