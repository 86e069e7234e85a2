// Error texts about the state of an operation.
#include "ep/core/op_state.h"

#include "base/fail.h"

int ep_op_check_state(uint64_t number, bool open, enum ep_op_state state, enum ep_op_state wanted, const char *call) {
  static const char *const come[] = {"", "dispatch_send", "dispatch_recv", "combine_send", "an interrupted dispatch"};
  if (!open)
    return fail(
        WEFT_ERR_INVALID,
        "%s: operation %llu is not open: a dispatch returns its number, and its combine or weft_ep_finish ends it",
        call, (unsigned long long)number);
  if (state == wanted)
    return 0;
  return fail(WEFT_ERR_INVALID, "%s: operation %llu is in the state %s, but must be in the state %s", call,
              (unsigned long long)number, come[state], come[wanted]);
}
