// What socket_exchange.c (connections that this agent keeps and makes) and socket_listener.c (those that it accepts)
// have of each other.
#ifndef AGENT_EXCHANGE_SOCKET_EXCHANGE_H
#define AGENT_EXCHANGE_SOCKET_EXCHANGE_H

#include "agent/exchange/socket_connection.h"

// How soon a host that has gone is noticed, and that small messages leave at once.
void sockets_set_up_socket(struct agent_services *services, int fd);

// INVALID: there is no token.
int sockets_listen(struct agent_sockets *sockets, const char *address);
void sockets_stop_listening(struct agent_sockets *sockets);

#endif
