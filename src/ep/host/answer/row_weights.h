// Weights that go back with the rows of a combine.
#ifndef EP_HOST_ANSWER_ROW_WEIGHTS_H
#define EP_HOST_ANSWER_ROW_WEIGHTS_H

#include "ep/host/host.h"

// Sends the weights of a piece of this rank's answer to one member. They have the same flag as the piece, and are sent
// before it. The window has to be free. False: the link is down.
bool ep_row_weights_send(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, const struct ep_batch *batch,
                         uint64_t flag, const struct ep_answer *with);
// Keeps the weights of this rank's own rows.
void ep_row_weights_keep(weft_ep_t *ep, struct ep_op *op, uint32_t rows, const float *weights);
// Waits for the weights of a member whose answer announces them.
enum ep_wait ep_row_weights_await(weft_ep_t *ep, const struct ep_op *op, struct ep_member *member,
                                  uint64_t deadline_ns);
// Writes the weights of one token's selections, [K]: 0 where none arrived.
void ep_row_weights_take(weft_ep_t *ep, const struct ep_op *op, uint32_t token, float *out);

#endif
