// How two ranks make a link: one calls, the other answers, and each maps or registers the memory that the other will
// write.
#ifndef EP_HANDSHAKE_HANDSHAKE_H
#define EP_HANDSHAKE_HANDSHAKE_H

#include <sys/socket.h>
#include <sys/un.h>

#include "ep/core/engine.h"

struct ep_handshake; // steps.h

// --- dial.c ---

// Connects to that incarnation, unless it is connected. TIMEOUT, VERSION, UNSUPPORTED (no transport to its host), AUTH,
// UNREACHABLE. [owner]
int ep_dial(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *address, uint64_t deadline_ns);

// --- local.c: on this host ---

// Calls the rank that listens at `to`. `*yield`: that rank's own call is used instead. [owner]
int ep_call_local(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const struct sockaddr_un *to, socklen_t size,
                  uint64_t deadline_ns, bool *yield);
// Answers a handshake message that has arrived on `socket`; the socket is the link's, or closed, afterwards. [service]
void ep_answer_local(weft_ep_t *ep, int socket);

// --- tcp.c: between hosts ---

// Calls the rank with the token and at the endpoints of its claim, until one of these is really that rank. `*yield`:
// that rank's own call is used instead. [owner]
int ep_call_tcp(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *claimed, uint64_t deadline_ns,
                bool *yield);
// Continues a call from another host. Returns an enum tls_wants: call this again when its socket is ready; 0: the call
// has become a link, or has ended; else the error for which it has to be ended. [service]
int ep_answer_tcp(weft_ep_t *ep, struct ep_handshake *handshake);

// --- arbiter.c: whose call is used ---

// Waits while the other rank's call is expected, until there is a link. True: the link is there, or `*rc` says why not.
// False: this rank has to call. `yielded`: the other rank has answered that its own call is used; if that makes no link
// for a moment, this rank has to call again. Under links.lock. [owner]
bool ep_await_call(weft_ep_t *ep, int32_t rank, uint64_t incarnation, uint64_t deadline_ns, bool yielded, int *rc);
// Waits until the called rank has answered on `socket` (POLLIN), or can receive more (POLLOUT). TIMEOUT, CANCELED;
// PEER_LOST: see ep_check_called(). [owner]
int ep_await_answer(weft_ep_t *ep, int socket, short events, int32_t rank, uint64_t incarnation, uint64_t deadline_ns);
// PEER_LOST: the called incarnation has no claim any more. Its process may be stopped, and then it neither answers nor
// hangs up; the group goes on without it, and another process may have its rank. [owner]
int ep_check_called(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
// Checks whether the caller may be the rank that it names. A caller that knows this rank's claim could name any rank;
// one that was stopped could name its own rank, which another process has by now. So if an incarnation of the rank is
// connected, a new one is accepted only when the store has its claim. PEER_LOST. [service]
int ep_check_incarnation(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
// Whether the peer of a link has said that it leaves, or has hung up. Does not wait. [any, while the link exists]
bool ep_peer_ended(struct ep_link *link);
// Decides whose call is used. False: not the caller's, or the caller has a link already. [service]
bool ep_answer_begin(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
// The call has failed, or the caller has confirmed the link. [service]
void ep_answer_end(weft_ep_t *ep, int32_t rank);

// --- confirm.c: whether a caller has received the answer ---

// Marks a link that answers a call, and is not installed yet: it counts only when the caller has confirmed that it has
// it. Until then the caller may give its call up, as at its deadline, and then it knows of no link. [service]
void ep_confirm_expect(weft_ep_t *ep, struct ep_link *link);
// Ends the answers that are confirmed, or never will be: their callers have hung up, or let too much time pass. Returns
// the milliseconds to the next such end of time; -1: none. [service]
int ep_confirm_settle(weft_ep_t *ep);

#endif
