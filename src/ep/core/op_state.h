// How far an operation has come: the same on both engines.
#ifndef EP_CORE_OP_STATE_H
#define EP_CORE_OP_STATE_H

enum ep_op_state {
  EP_OP_FREE,
  EP_OP_SENT,     // dispatch_send is done
  EP_OP_RECEIVED, // dispatch_recv too
  EP_OP_ANSWERED, // combine_send too
  EP_OP_SENDING,  // dispatch_send was interrupted
};

#define EP_NOT_LATE "%s: topk_weights are given, but the receive was RANK_MAJOR: they go with the dispatch, or nowhere"

#endif
