// Checks the bytes that a peer's UCX made before libucp reads them. libucp takes no lengths for worker addresses and
// memory keys, reads wherever their bytes point, and ends the process if it finds something unknown. So this code
// checks their format, as UCX 1.13 to 1.22 write it, and the contents that UCX would follow; it refuses everything
// unknown.
//
// Each transport of UCX has its own parts in an address and in a key. The parts of TCP and InfiniBand are checked by
// their format. The parts of another transport that this side has, too, must be as long as this side's. UCX skips parts
// of transports that this side does not have. A transport may read a little beyond a part that is too short: the caller
// appends UCX_SLACK zeros to the bytes before it passes them to libucp.
#ifndef TRANSPORT_UCX_CHECK_CHECK_H
#define TRANSPORT_UCX_CHECK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UCX_MOST_ENTRIES = 128, UCX_SLACK = 512 };

// One path to a worker: a transport of UCX on one device. The parts are pointers into the address.
struct ucx_entry {
  uint16_t transport; // ucx_transport_sum() of its name
  uint8_t md;         // the worker's index of its memory domain
  uint8_t device_size, interface_size;
  const uint8_t *device, *interface;
};

// The lengths of the parts of this side's own address.
struct ucx_sizes {
  uint32_t count;
  struct {
    uint16_t transport;
    uint8_t device, interface;
  } of[UCX_MOST_ENTRIES];
};

// The number of a transport in an address: the CRC-16 (X.25) of its name.
uint16_t ucx_transport_sum(const char *name);

// Checks a worker address. PROTOCOL: it is no address, or has nothing that can be reached. VERSION: its format is
// unknown.
int ucx_address_check(const void *bytes, size_t size, const struct ucx_sizes *own);
// Checks this worker's own address, and fills `sizes`. Also VERSION: other workers would refuse the format of this
// libucp.
int ucx_address_learn(const void *bytes, size_t size, struct ucx_sizes *sizes);

// Checks a packed memory key, of GPU memory or of host memory. PROTOCOL: it is no such key.
int ucx_rkey_check(const void *bytes, size_t size, bool gpu);

// entry.c: how a transport of this side would handle that entry.
int ucx_entry_check(const struct ucx_entry *entry, const struct ucx_sizes *own);

#endif
