// Reads the configuration that this machine's UCX makes from options of the transport ucx, without a worker.
#ifndef TESTS_TRANSPORT_UCX_CONFIG_H
#define TESTS_TRANSPORT_UCX_CONFIG_H

#include <stddef.h>

struct transport_options;

// Copies the value of UCX's option `name`, such as "UCX_TLS", to `out`, as UCX prints it. Fails the test if UCX has no
// such option.
void ucx_config_value(const struct transport_options *options, const char *name, char *out, size_t size);

#endif
