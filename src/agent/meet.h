// What meet.c (connections that this agent keeps and makes) and meet_listen.c (those that it accepts) have of each
// other.
#ifndef AGENT_MEET_H
#define AGENT_MEET_H

#include "agent/talk.h"

// How soon a host that has gone is noticed, and that small messages leave at once.
void meet_set_up_socket(struct agent_meta *meta, int fd);

// INVALID: there is no token.
int meet_listen(struct agent_meet *meet, const char *address);
void meet_stop_listening(struct agent_meet *meet);

#endif
