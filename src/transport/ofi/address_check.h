// Checks a libfabric name from a peer before libfabric reads it: providers take no lengths, and trust its contents.
#ifndef TRANSPORT_OFI_ADDRESS_CHECK_H
#define TRANSPORT_OFI_ADDRESS_CHECK_H

#include <stddef.h>
#include <stdint.h>

// `format`: the address format of this side's endpoint, such as FI_SOCKADDR_IN; its own name has `own_size` bytes.
// PROTOCOL: the bytes are not the name of an endpoint.
int ofi_name_check(uint32_t format, const void *name, size_t size, size_t own_size);

#endif
