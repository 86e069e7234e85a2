// The steps of a post: post.c, post_with.c. [transfer]
#ifndef AGENT_TRANSFER_POST_H
#define AGENT_TRANSFER_POST_H

#include "agent/transfer/transfer.h"

// BUSY: the transfer is in flight.
int agent_transfer_may_post(weft_transfer_t *transfer);
// Starts the transfer as it is set up. It must not be in flight.
int agent_transfer_launch(weft_transfer_t *transfer);
// Undoes the changes that were made for the last post only.
void agent_transfer_as_made(weft_transfer_t *transfer);

#endif
