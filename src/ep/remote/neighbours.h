// Neighbours are ranks of one host. Each shows the others the areas that ranks of other hosts write for it, for
// reading, so that a token which goes to several of them crosses the network once (host/send/).
//
// A rank whose link to a *source* on another host is up sends a descriptor of that link's area to its neighbours, on
// the socket of the handshake between them, with the number that it has given the link. A neighbour that has mapped the
// area tells the source so, on the control socket of its own link to it. A neighbour that cannot map it says nothing,
// and the source sends it rows of its own. So does one that WEFT_EP_ONCE tells to share nothing.
//
// On host memory a mapping stays while the source and the *carrier*, the rank whose area it is, are connected or in the
// view, and for some operations more; on CUDA memory, where only kernels know which operation runs, as long as there
// are links to both, which stay as long as a view needs them.
//
// What is shown is the memory that the rows of the source come to: of a link to a rank on host memory its area, on CUDA
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
  bool told;        // under links.lock: the source knows that this rank reads it
  uint64_t last_op; // on host memory: nobody will name it after that operation; 0: it is needed. [owner]
  struct ep_neighbour_area *_Atomic next;
  struct ep_neighbour_area *next_out; // of those that are being let go of
};

// The link to that rank is up, and its handshake is over: shows its area to neighbours, or to a neighbour all areas,
// and notifies the peer which areas this rank reads. [any]
void ep_neighbours_connected(weft_ep_t *ep, int32_t rank);
// Something has come on the socket of a link to a neighbour. 0, or an errno as of path->listen (link/path.h). [service]
int ep_neighbours_receive(weft_ep_t *ep, struct ep_link *link);
// The memory of the area of that number, which the peer of `source` writes; NULL: this rank reads none such. [owner; on
// CUDA memory: net lock]
const void *ep_neighbours_area(const weft_ep_t *ep, const struct ep_link *source, uint64_t number);
// Whether the peer of `reader` reads the area of the link `carrier`: both lead to another host, and neither is freed
// meanwhile. [any]
bool ep_neighbours_reads(const struct ep_link *reader, const struct ep_link *carrier);
// Lets go of the areas that nobody will name any more. No operation reads any area. True: others will have to go soon.
// [owner]
bool ep_neighbours_sweep(weft_ep_t *ep);
// The same on CUDA memory, whatever operation runs. [any, without the net lock]
void ep_neighbours_sweep_unlinked(weft_ep_t *ep);
// Of all areas; no thread uses them. NULL-safe.
void ep_neighbours_free(weft_ep_t *ep);

#endif
