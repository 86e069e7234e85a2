// The steps of a post: post.c, post_with.c. [transfer]
#ifndef AGENT_TRANSFER_POST_H
#define AGENT_TRANSFER_POST_H

#include "agent/transfer/transfer.h"

// BUSY: it is in flight.
int agent_transfer_may_post(weft_transfer_t *transfer);
// Starts it as it is set up. It is not in flight.
int agent_transfer_launch(weft_transfer_t *transfer);
// Takes back what the last post had of its own.
void agent_transfer_as_made(weft_transfer_t *transfer);

#endif
