// What the network libraries have chosen for the transfers of a benchmark: for its report, and for a warning if that is
// TCP where the user probably expects RDMA.
#ifndef LIMITS_USES_H
#define LIMITS_USES_H

#include "limits/limits.h"

enum { LIMITS_USES = 320 };

struct limits_uses {
  char text[LIMITS_USES]; // what the transports of the noted routes use, each once: "ofi tcp eth0"; "": none
  bool warned;
};

// Notes what carries transfers over that route. `peer_uses` is the peer's weft_peer_info.uses. The first time that
// limits_uses_warning() has a reason, the warning is logged.
void limits_uses_note(struct limits_uses *uses, const char *peer_uses, const struct limits_route *route);

// Whether a library has chosen TCP by itself for memory of a GPU, or for a peer on another host. Then it writes what
// was found, and what to look at, to text[cap]. If the environment names TCP, the user has asked for it.
bool limits_uses_warning(const char *peer_uses, const struct limits_route *route, char *text, size_t cap);

#endif
