// The states of an operation, the same in both engines.
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

// Checks that operation `number`, which a caller names, is open and in the state that the call needs. INVALID.
int ep_op_check_state(uint64_t number, bool open, enum ep_op_state state, enum ep_op_state wanted, const char *call);

#define EP_NOT_LATE                                                                                                    \
  "%s: topk_weights are given, but the rows were received RANK_MAJOR: give the weights to the dispatch, or not at all"
#define EP_ALSO_LATE                                                                                                   \
  "%s: row_weights are given, but the dispatch had no topk_weights: give those to the dispatch, or set UNWEIGHTED"

#endif
