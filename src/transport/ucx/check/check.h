// What a peer's UCX made, before libucp reads it: libucp takes no lengths for worker addresses and keys of memory,
// reads on wherever their bytes lead, and ends the process where it finds what it does not know. So their form is
// checked here, as UCX 1.13 to 1.22 write it, and the contents as far as UCX would follow them; what is not known is
// refused.
//
// Transports of UCX have parts of their own in an address and in a key. Those of TCP and InfiniBand are checked by
// their format; those of others, as far as this side has the transport too, must be as long as this side's. UCX passes
// over what no transport of this side made. A transport may read a little beyond a part that is too short: whoever
// hands the bytes to libucp puts UCX_SLACK zeros behind them.
#ifndef TRANSPORT_UCX_CHECK_CHECK_H
#define TRANSPORT_UCX_CHECK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UCX_MOST_ENTRIES = 128, UCX_SLACK = 512 };

// One way to a worker: a transport of UCX on one device. The parts lie within the address.
struct ucx_entry {
  uint16_t transport; // ucx_transport_sum() of its name
  uint8_t md;         // the worker's index of its memory domain
  uint8_t device_size, interface_size;
  const uint8_t *device, *interface;
};

// How long the parts of this side's own address are.
struct ucx_sizes {
  uint32_t count;
  struct {
    uint16_t transport;
    uint8_t device, interface;
  } of[UCX_MOST_ENTRIES];
};

// The number that stands for a transport's name in an address: its CRC-16 (X.25).
uint16_t ucx_transport_sum(const char *name);

// A worker address. PROTOCOL: it is none, or names nothing that can be reached. VERSION: in a format that is not known.
int ucx_address_check(const void *bytes, size_t size, const struct ucx_sizes *own);
// This worker's own address; fills `sizes`. Besides, VERSION: this libucp writes what other workers would refuse.
int ucx_address_learn(const void *bytes, size_t size, struct ucx_sizes *sizes);

// A packed key of memory, of a GPU's or of host memory. PROTOCOL: it is none.
int ucx_rkey_check(const void *bytes, size_t size, bool gpu);

// entry.c: what a transport of this side would make of that entry.
int ucx_entry_check(const struct ucx_entry *entry, const struct ucx_sizes *own);

#endif
