// Chooses the NICs of a worker of a transport that uses NICs, when the user has not chosen.
#ifndef TRANSPORT_NICS_H
#define TRANSPORT_NICS_H

#include "topology/served/serve.h"
#include "transport/transport.h"

enum { TRANSPORT_NO_GPU = -1, TRANSPORT_ANY_GPU = -2 };

struct transport_nics {
  char wish[TOPOLOGY_SERVED + 8]; // "nics=mlx5_0,mlx5_1"; "": none
  const char *settings[2];        // settings for struct transport_options
  char why[TOPOLOGY_SERVED_WHY];  // the reason in words; "": the transport uses no NIC, or the host has fewer than two
                                  // usable ones
};

// `gpu`: the index of the GPU whose memory the worker moves, NO_GPU, or ANY_GPU: all GPUs that this process sees, the
// calling thread's current one first. The first call takes tens of milliseconds if there is a choice. `nics` must not
// be moved afterwards. [any]
void transport_nics_choose(const struct transport *transport, int gpu, struct transport_nics *nics);

#endif
