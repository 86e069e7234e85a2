// A small operation of four ranks, and the results of an engine without faults. Simple loops compute them with the
// arithmetic of the portable kernels.
#ifndef TESTS_EP_ORACLE_MODEL_H
#define TESTS_EP_ORACLE_MODEL_H

#include "ep/oracle/oracle.h"

enum {
  MODEL_HIDDEN = 256,
  MODEL_BLOCKS = MODEL_HIDDEN / 128,
  MODEL_TOPK = 5,
  MODEL_EXPERTS = 3,
  MODEL_CAPACITY = 8,
  MODEL_RANKS = 4,  // 0, 2, 3 and 6; rank 3 has no tokens
  MODEL_TOKENS = 9, // of each of the other ranks
  MODEL_ROWS = 64,
  MODEL_ROW_BYTES = 96, // OPAQUE
  MODEL_SCALE_BYTES = 8,
  MODEL_JUDGED = 2, // the rank whose results the model computes
};

struct model {
  struct oracle_case test;
  struct oracle_source sources[MODEL_RANKS];
  uint16_t x[MODEL_RANKS][MODEL_TOKENS * MODEL_HIDDEN];
  int64_t topk_idx[MODEL_RANKS][MODEL_TOKENS * MODEL_TOPK];
  float topk_weights[MODEL_RANKS][MODEL_TOKENS * MODEL_TOPK];
  uint8_t payload[MODEL_RANKS][MODEL_TOKENS * MODEL_ROW_BYTES];
  uint8_t payload_scales[MODEL_RANKS][MODEL_TOKENS * MODEL_SCALE_BYTES];
  int32_t lost[MODEL_RANKS]; // nothing arrives from these ranks; if `partial`, a part of the data arrives
  uint32_t num_lost;
  bool partial;                   // `came` and `answered` say which part:
  uint32_t came[MODEL_RANKS];     // bit t: token t of that source arrived
  uint32_t answered[MODEL_RANKS]; // bit t: that rank answered token t of MODEL_JUDGED
  bool renormalize;
  struct oracle_answer answer;
  uint16_t bias[2][MODEL_TOKENS * MODEL_HIDDEN];
  float row_weights[MODEL_TOKENS * MODEL_TOPK];

  struct weft_ep_recv_args recv;
  struct weft_ep_info info;
  union {
    uint16_t bf16[MODEL_EXPERTS * MODEL_ROWS * MODEL_HIDDEN];
    uint8_t fp8[MODEL_EXPERTS * MODEL_ROWS * MODEL_HIDDEN];
    uint8_t opaque[MODEL_EXPERTS * MODEL_ROWS * MODEL_ROW_BYTES];
  } rows;
  float scales[MODEL_EXPERTS * MODEL_ROWS * MODEL_BLOCKS];
  int32_t counts[MODEL_EXPERTS];
  int32_t src_rank[MODEL_EXPERTS * MODEL_ROWS], src_token[MODEL_EXPERTS * MODEL_ROWS];
  int64_t range[MODEL_EXPERTS * MODEL_CAPACITY];
  int32_t local_expert[MODEL_ROWS * MODEL_TOPK];
  float weights[MODEL_ROWS * MODEL_TOPK];
  int32_t slot[MODEL_EXPERTS * MODEL_ROWS * MODEL_TOPK], expert_end[MODEL_EXPERTS];
  int32_t lost_out[MODEL_RANKS];

  uint16_t out[MODEL_TOKENS * MODEL_HIDDEN];
  float out_weights[MODEL_TOKENS * MODEL_TOPK];
  struct weft_ep_result result;
  struct weft_ep_missing missing[MODEL_TOKENS * MODEL_TOPK];
};

// Makes the operation. It has positive rows (so that sums do not cancel), entries of -1, a token that selects one
// expert twice, an expert of a rank that is not in the view, and a token that selects no expert.
struct model *model_new(enum weft_ep_dtype dtype, enum weft_ep_layout layout, int32_t lost_or_none);

// Makes `rank` end early: the tokens in `came` arrive from it, and it answers the tokens in `answered`. Call the next
// two functions afterwards.
void model_break(struct model *model, int32_t rank, uint32_t came, uint32_t answered);

// Computes what MODEL_JUDGED receives, and what it combines. Call it again after a change of the inputs.
void model_dispatch(struct model *model);
void model_combine(struct model *model);

struct oracle_verdict model_judge_dispatch(const struct model *model);
struct oracle_verdict model_judge_combine(const struct model *model);

// out = row * (1 + expert / 16). With answer.by_rank, `expert` is the number of a rank.
void model_expert(void *arg, int64_t expert, const double *row, uint32_t hidden, double *out);

#endif
