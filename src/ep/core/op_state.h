// How far an operation has come: the same on both engines.
#ifndef EP_CORE_OP_STATE_H
#define EP_CORE_OP_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum ep_op_state {
  EP_OP_FREE,
  EP_OP_SENT,     // dispatch_send is done
  EP_OP_RECEIVED, // dispatch_recv too
  EP_OP_ANSWERED, // combine_send too
  EP_OP_SENDING,  // dispatch_send was interrupted
};

// Whether operation `number`, which a caller names, is open and has come as far as the call wants it. INVALID.
int ep_op_check_state(uint64_t number, bool open, enum ep_op_state state, enum ep_op_state wanted, const char *call);

#define EP_NOT_LATE "%s: topk_weights are given, but the receive was RANK_MAJOR: they go with the dispatch, or nowhere"

#endif
