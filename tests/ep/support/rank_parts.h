// What the parts of a rank under test share: rank.c opens it and runs operations.
#ifndef TESTS_EP_RANK_PARTS_H
#define TESTS_EP_RANK_PARTS_H

#include "ep/support/rank.h"

enum { RANK_APART = 6 }; // room between strided items, in bytes or entries

// The bytes of the scales of one row; at most a float for each block.
size_t rank_scale_bytes(const struct setup *s);

// Computes y from the received rows.
void rank_run_experts(struct rank *rank, enum pattern_kind kind);

// Draw for one operation with setup.vary: what is equal on all ranks, what each rank has for itself, and the latter in
// its dispatch.
void rank_draw_common(struct rank *rank, uint64_t *drawn);
void rank_draw_own(struct rank *rank, uint64_t *drawn);
void rank_vary_dispatch(struct rank *rank, uint64_t *drawn, struct weft_ep_dispatch_args *args);
// Whether weft_ep_recv_args.status and .lost agree with the operation's info.
bool rank_check_status(struct rank *rank, uint64_t op);

#endif
