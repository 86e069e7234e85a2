// Functions that socket_exchange.c (connections that this agent keeps and makes) and socket_listener.c (connections
// that it accepts) call of each other.
#ifndef AGENT_EXCHANGE_SOCKET_EXCHANGE_H
#define AGENT_EXCHANGE_SOCKET_EXCHANGE_H

#include "agent/exchange/socket_connection.h"

// Sets options of the socket: how soon a lost host is noticed, and that small messages are sent at once.
void socket_exchange_set_up(struct agent_services *services, int fd);

// INVALID: there is no token.
int socket_listener_start(struct agent_sockets *sockets, const char *address);
void socket_listener_stop(struct agent_sockets *sockets);

#endif
