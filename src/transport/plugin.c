// This file is compiled into each plug-in of a transport; PLUGIN_TRANSPORT is the name of its table.
#include "transport/plugin.h"

extern const struct transport PLUGIN_TRANSPORT;

__attribute__((visibility("default"))) const struct transport_plugin weft_transport_plugin = {
    .abi = TRANSPORT_ABI,
    .transport = &PLUGIN_TRANSPORT,
    .share = fail_share,
};
