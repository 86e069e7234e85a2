// Which user's process is at the other end of a local socket.
#ifndef EP_HANDSHAKE_PEER_USER_H
#define EP_HANDSHAKE_PEER_USER_H

// 0 if that process runs as the same user as this process. For an accepted socket this is the process that called
// connect(); for a connected socket, the process that called listen(); the kernel stored the user at that call. AUTH:
// it runs as another user, or as one for which this user namespace has no number. [any]
int ep_user_check(int socket);

#endif
