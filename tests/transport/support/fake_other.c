// The plug-in of another version.
#include "transport/plugin.h"

extern __attribute__((visibility("default"))) const struct transport_plugin weft_transport_plugin;
const struct transport_plugin weft_transport_plugin = {.abi = TRANSPORT_ABI + 1};
