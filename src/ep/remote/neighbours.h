// Neighbours are ranks of one host. Each lets the others read the areas that ranks of other hosts write for it. So a
// token for several of them crosses the network once (host/send/).
//
// A rank whose link to a *source* on another host is up sends a descriptor of that link's area to its neighbours, on
// the socket of the handshake between them, with the number that it has given the link. A neighbour that has mapped the
// area notifies the source on the control socket of its own link to the source. A neighbour that cannot map it sends no
// notice, and the source then sends it separate rows. The same happens to a rank whose WEFT_EP_ONCE turns sharing off.
//
// The *carrier* is the rank that owns the area. On host memory a mapping stays while the source and the carrier are
// connected or in the view, and for some operations more. On CUDA memory, where only kernels know which operation runs,
// a mapping stays as long as there are links to both; these stay as long as a view needs them.
//
// The memory that a link shows is the memory in which the source's rows arrive: on host memory the link's area, on CUDA
// memory its window (remote/carrier.h).
#ifndef EP_REMOTE_NEIGHBOURS_H
#define EP_REMOTE_NEIGHBOURS_H

#include <stdbool.h>
#include <stdint.h>

#include "ep/core/engine.h"

// The area of a carrier that a source writes, mapped for reading.
struct ep_neighbour_area {
  int32_t carrier, source;
  uint64_t carrier_incarnation, source_incarnation;
  uint64_t number; // ep_area_number() of the carrier's link to the source
  struct ep_window window;
  bool notified;    // under links.lock: the source knows that this rank reads it
  uint64_t last_op; // on host memory: no rank will name it after that operation; 0: it is still needed. [owner]
  struct ep_neighbour_area *_Atomic next;
  struct ep_neighbour_area *next_out; // in the list of areas that are being freed
};

// The link to that rank is up, and its handshake is over. Shows the link's area to neighbours, or all areas if the peer
// is a neighbour, and notifies the peer which areas this rank reads. [any]
void ep_neighbours_connected(weft_ep_t *ep, int32_t rank);
// Receives what a neighbour has sent on the socket of its link: an area, or the confirmation of its call. 0, or an
// errno as path->listen returns it (link/path.h). [service]
int ep_neighbours_receive(weft_ep_t *ep, struct ep_link *link);
// The memory of the area of that number, which the peer of `source` writes; NULL: this rank reads no such area. [owner;
// on CUDA memory: net lock]
const void *ep_neighbours_area(const weft_ep_t *ep, const struct ep_link *source, uint64_t number);
// Whether the peer of `reader` reads the area of the link `carrier`. Both are links to another host, and the caller
// makes sure that neither is freed meanwhile. [any]
bool ep_neighbours_reads(const struct ep_link *reader, const struct ep_link *carrier);
// Frees the areas that no rank will name any more. No operation may be reading any area. True: others have to be freed
// soon. [owner]
bool ep_neighbours_sweep(weft_ep_t *ep);
// The same on CUDA memory, whatever operation runs. [any, without the net lock]
void ep_neighbours_sweep_unlinked(weft_ep_t *ep);
// Frees all areas; no thread may use them any more.
void ep_neighbours_free(weft_ep_t *ep);

#endif
