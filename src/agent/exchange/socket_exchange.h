// What socket_exchange.c (connections that this agent keeps and makes) and socket_listener.c (those that it accepts)
// have of each other.
#ifndef AGENT_EXCHANGE_SOCKET_EXCHANGE_H
#define AGENT_EXCHANGE_SOCKET_EXCHANGE_H

#include "agent/exchange/socket_connection.h"

// How soon a host that has gone is noticed, and that small messages leave at once.
void meet_set_up_socket(struct agent_meta *meta, int fd);

// INVALID: there is no token.
int meet_listen(struct agent_meet *meet, const char *address);
void meet_stop_listening(struct agent_meet *meet);

#endif
