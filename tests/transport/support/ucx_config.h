// What this machine's UCX makes of the transport's options, without the rest of the transport.
#ifndef TESTS_TRANSPORT_UCX_TOLD_H
#define TESTS_TRANSPORT_UCX_TOLD_H

#include <stddef.h>

struct transport_options;

// The value of UCX's option `name`, "UCX_TLS" say, as a line of its configuration. Fails the test where there is none.
void ucx_config_value(const struct transport_options *options, const char *name, char *out, size_t size);

#endif
