// How two ranks become a link: one calls, the other answers, each maps or registers what the other is to write.
#ifndef EP_HANDSHAKE_HANDSHAKE_H
#define EP_HANDSHAKE_HANDSHAKE_H

#include <sys/socket.h>
#include <sys/un.h>

#include "ep/core/engine.h"

struct ep_handshake; // steps.h

// --- dial.c ---

// Connects to that incarnation, unless it is connected. TIMEOUT, VERSION, UNSUPPORTED (no way to its host), AUTH,
// UNREACHABLE. [owner]
int ep_dial(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *address, uint64_t deadline_ns);

// --- local.c: on this host ---

// Calls the rank that listens at `to`. `*yield`: its call stands instead. [owner]
int ep_call_local(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const struct sockaddr_un *to, socklen_t size,
                  uint64_t deadline_ns, bool *yield);
// Answers a handshake message that has arrived on `socket`; the socket is the link's, or closed, afterwards. [service]
void ep_answer_local(weft_ep_t *ep, int socket);

// --- tcp.c: between hosts ---

// Calls the rank at the token and endpoints of its claim, until one of them is its own. `*yield`: its call stands
// instead. [owner]
int ep_call_tcp(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *claimed, uint64_t deadline_ns,
                bool *yield);
// Goes on with a call from another host. An enum tls_wants: call again when its socket is ready; 0: it has become a
// link, or has ended; else it has to be ended, for that reason. [service]
int ep_answer_tcp(weft_ep_t *ep, struct ep_handshake *handshake);

// --- arbiter.c: whose call stands ---

// Waits while the other's call is expected, until its link is there. True: it is, or `*rc` says why not; false: calling
// is up to this rank. `yielded`: the other has said that its call stands; when nothing comes of it for a moment,
// calling is up to this rank again. Under links.lock. [owner]
bool ep_await_call(weft_ep_t *ep, int32_t rank, uint64_t incarnation, uint64_t deadline_ns, bool yielded, int *rc);
// Waits until the called rank has answered on `socket` (POLLIN), or takes more (POLLOUT). TIMEOUT, CANCELED. [owner]
int ep_await_answer(weft_ep_t *ep, int socket, short events, int32_t rank, uint64_t deadline_ns);
// Whether the caller may be who it says. One that knows this rank's claim may name any rank, and one that was stopped
// may name its own, which another has by now: so a new life of a rank whose last one is connected is believed when the
// store has its claim. PEER_LOST. [service]
int ep_check_incarnation(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
// Decides whose call stands. False: the caller's does not, or it has a link already. [service]
bool ep_answer_begin(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
void ep_answer_end(weft_ep_t *ep, int32_t rank);

#endif
