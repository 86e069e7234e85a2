// A rank of random_throughput.c: runs operations as they are drawn, and lets the oracle judge each. One thread.
#ifndef TESTS_EP_HOST_MEMBER_H
#define TESTS_EP_HOST_MEMBER_H

#include "ep/host/support/drawn.h"
#include "ep/oracle/oracle.h"

enum { MEMBER_MISSING = 16384 };

// What a rank dispatched in an operation, made again.
struct member_source {
  uint16_t *x;
  int64_t *topk_idx;
  float *weights;
  uint8_t *payload;
  uint32_t *payload_scales;
};

// Where the rows of an operation stand. Of a route it outlives the operation.
struct member_rows {
  enum weft_ep_layout layout;
  uint32_t rows, alignment, topk;
  uint32_t num_rows; // RANK_MAJOR
  int32_t *counts, *src_rank, *src_token, *local_expert, *expert_end;
};

// What the route was filled with.
struct member_route {
  weft_ep_route_t *handle;
  bool filled;
  uint64_t op;
  int32_t view[DRAWN_CAPACITY];
  uint32_t num_view, topk;
  bool whole;        // all ranks filled theirs in the same view
  bool lacks_victim; // which was lost before it was known how many rows it sends
  struct member_rows rows;
};

struct member {
  const struct drawn_group *group;
  weft_ep_t *ep;
  int32_t rank;
  char error[1024]; // "" while all is well

  // The operation at hand.
  uint64_t number;
  struct drawn_op op;
  struct drawn_own own;
  int32_t view[DRAWN_CAPACITY];
  uint32_t num_view;
  uint64_t routed_by; // the operation whose routing it has, and its view
  int32_t routed_view[DRAWN_CAPACITY];
  uint32_t num_routed;
  struct member_source made[DRAWN_CAPACITY];    // by rank
  struct oracle_source sources[DRAWN_CAPACITY]; // of the view, and what a route has besides
  uint32_t num_sources;
  struct member_rows rows;
  struct weft_ep_recv_args recv;
  struct weft_ep_info info;
  struct weft_ep_result result;
  int32_t lost[DRAWN_CAPACITY];
  struct weft_ep_missing missing[MEMBER_MISSING];
  struct member_route route;
  int32_t last_view[DRAWN_CAPACITY]; // of the operation before
  uint32_t num_last;

  uint32_t room; // rows of all parts together
  uint8_t *x, *received;
  uint32_t *scales_in, *scales;
  uint16_t *y, *out, *first_out, *bias[2];
  float *recv_weights, *row_weights, *right_weights, *out_weights;
  int32_t *slot;
  int64_t *range;

  // Called before the calls of a half, if not NULL.
  void (*before)(struct member *m, bool combines);
  void *before_arg;
  uint64_t half_ns[2]; // how long they took the last time
  uint64_t epoch;      // of the last dispatch
  uint64_t broken[2];  // operations in which a part of what the victim sends came, by halves

  uint64_t judged, unjudged, of_kind[DRAWN_UNANSWERED + 1], conflicts, crowded;
};

bool member_open(struct member *m, const struct drawn_group *group, int32_t rank, bool founds);
void member_close(struct member *m);
bool member_operate(struct member *m);
bool member_fail(struct member *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

// member_data.c: what every rank dispatched in the operation at hand, and what this rank's experts make of it.
void member_make_sources(struct member *m);
void member_answer(struct member *m, const struct member_rows *rows);

// member_judge.c
bool member_judge_dispatch(struct member *m);
bool member_judge_combine(struct member *m);

#endif
