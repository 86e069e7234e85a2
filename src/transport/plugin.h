// The interface of a transport in a separate shared module, libweft_<name>.so.0. cmake's weft_transport_plugin() builds
// such a module, which has its own copy of the base layer.
#ifndef TRANSPORT_PLUGIN_H
#define TRANSPORT_PLUGIN_H

#include "base/fail.h"
#include "transport/transport.h"

#define TRANSPORT_PLUGIN_SYMBOL "weft_transport_plugin"

// The version of this struct and of transport.h: raised with every incompatible change.
enum { TRANSPORT_ABI = 7 };

struct transport_plugin {
  uint32_t abi;
  const struct transport *transport;
  void (*share)(fail_detail_fn *detail); // called first: errors inside are then written where the library reads them
};

extern const struct transport_plugin weft_transport_plugin;

#endif
