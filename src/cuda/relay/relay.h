// See relay.c. It uses no CUDA, so that tests can build it without CUDA.
#ifndef CUDA_RELAY_RELAY_H
#define CUDA_RELAY_RELAY_H

#include <stddef.h>

#include "device/device.h"

// As in device/device.h.
int cuda_relay_open(const struct device_ep_options *options, void *in, void *out, struct device_relay **relay,
                    char *why);
void cuda_relay_close(struct device_relay *relay);
void cuda_relay_rings(const struct device_relay *relay, uint64_t *offset, uint64_t *bytes);
size_t cuda_relay_collect(struct device_relay *relay, void *bytes, size_t size, struct device_moves *moves,
                          struct device_sharing *sharing);
void cuda_relay_landed(struct device_relay *relay, uint64_t stamp);
int cuda_relay_deliver(struct device_relay *relay, const void *bytes, size_t size,
                       const struct device_neighbours *neighbours, char *why);

#endif
