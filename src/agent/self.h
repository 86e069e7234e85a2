// The transport that every agent has, and that nobody asks for by name: see self.c.
#ifndef AGENT_SELF_H
#define AGENT_SELF_H

#include "transport/transport.h"

extern const struct transport agent_transport_self;

#endif
