// Checks a libfabric name from a peer before libfabric reads it: providers take no lengths, and trust its contents.
#ifndef TRANSPORT_OFI_ADDRESS_CHECK_H
#define TRANSPORT_OFI_ADDRESS_CHECK_H

#include <stddef.h>
#include <stdint.h>

// `format`: FI_SOCKADDR_IN and the like, of this side's endpoint, whose own name has `own_size` bytes. PROTOCOL: it is
// no name of one endpoint.
int ofi_name_check(uint32_t format, const void *name, size_t size, size_t own_size);

#endif
