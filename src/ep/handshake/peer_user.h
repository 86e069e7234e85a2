// Whose process is at the other end of a local socket.
#ifndef EP_HANDSHAKE_PEER_USER_H
#define EP_HANDSHAKE_PEER_USER_H

// 0 if it runs as this process's own user: who called, for a socket that was accepted; who listens, for one that
// connected (what the kernel noted when that process called connect() or listen()). AUTH: it runs as another one, or as
// one that this user namespace has no number for. [any]
int ep_user_check(int socket);

#endif
