// Functions of socket_exchange.c (the connections that this agent keeps and makes) that socket_listener.c (the
// connections that it accepts) calls, and the other way round.
#ifndef AGENT_EXCHANGE_SOCKET_EXCHANGE_H
#define AGENT_EXCHANGE_SOCKET_EXCHANGE_H

#include "agent/exchange/socket_connection.h"

// Sets options of the socket: how soon a lost host is noticed, and that small messages are sent at once.
void socket_exchange_set_up(struct agent_services *services, int fd);

// INVALID: there is no token.
int socket_listener_start(struct agent_sockets *sockets, const char *address);
void socket_listener_stop(struct agent_sockets *sockets);

#endif
