// Which NICs a worker is given, of transports that use one, when nobody has said.
#ifndef TRANSPORT_NICS_H
#define TRANSPORT_NICS_H

#include "topology/served/serve.h"
#include "transport/transport.h"

enum { TRANSPORT_NO_GPU = -1, TRANSPORT_ANY_GPU = -2 };

struct transport_nics {
  char wish[TOPOLOGY_SERVED + 8]; // "nics=mlx5_0,mlx5_1"; "": none
  const char *settings[2];        // for struct transport_options
  char why[TOPOLOGY_SERVED_WHY];  // in words; "": the transport uses none, or the host has no two that could be used
};

// `gpu`: the index of the GPU whose memory it moves, NO_GPU, or ANY_GPU: all that this process sees, the calling
// thread's current one foremost. The first time, where there is something to choose, takes tens of milliseconds. `nics`
// must stay where it is. [any]
void transport_nics_choose(const struct transport *transport, int gpu, struct transport_nics *nics);

#endif
