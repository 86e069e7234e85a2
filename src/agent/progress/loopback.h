// The transport that every agent has, and that nobody selects by name: see loopback.c.
#ifndef AGENT_PROGRESS_LOOPBACK_H
#define AGENT_PROGRESS_LOOPBACK_H

#include "transport/transport.h"

extern const struct transport agent_transport_self;

#endif
