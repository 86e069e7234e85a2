// What the parts of a rank under test have of each other: rank.c opens it and operates.
#ifndef TESTS_EP_RANK_PARTS_H
#define TESTS_EP_RANK_PARTS_H

#include "ep/support/rank.h"

enum { RANK_APART = 6 }; // room between what is strided, in bytes or entries

// Of the scales of one row; at most those of a float for each block.
size_t rank_scale_bytes(const struct setup *s);

// Makes y of the rows that came.
void rank_run_experts(struct rank *rank, enum pattern_kind kind);

// With setup.vary, of one operation: what all its ranks have alike, what each has for itself, and this in its dispatch.
void rank_draw_common(struct rank *rank, uint64_t *drawn);
void rank_draw_own(struct rank *rank, uint64_t *drawn);
void rank_vary_dispatch(struct rank *rank, uint64_t *drawn, struct weft_ep_dispatch_args *args);
// Whether what weft_ep_recv_args.told and .lost got is what the operation's info is.
bool rank_check_told(struct rank *rank, uint64_t op);

#endif
