// What traffic.c, traffic_experts.c and traffic_judge.c share.
#ifndef RUN_TRAFFIC_INTERNAL_H
#define RUN_TRAFFIC_INTERNAL_H

#include "run/traffic.h"

// A rank's input.
struct traffic_input {
  uint32_t num_tokens;
  uint16_t *x;    // [T][H]
  int64_t *topk;  // [T][K]
  float *weights; // [T][K]
};

struct traffic {
  weft_ep_t *ep;
  const struct run_config *config;
  uint32_t capacity, max_ranks;
  uint32_t rows;                // of an expert's part, or of the whole receive buffer
  uint32_t groups;              // parts of the receive buffer: experts, or 1
  struct traffic_input input;   // this rank's
  struct traffic_input *others; // [max_ranks], for the judge; made when first needed
  struct weft_ep_recv recv;
  uint16_t *y;   // the experts' outputs; where they are the inputs themselves, recv.x is sent back instead
  uint16_t *row; // [K + 1][H], an expert's work space
  uint16_t *out; // [T][H]
  struct weft_ep_missing *missing; // [T][K]
  int32_t *ranks;                  // [capacity] view in which the last operation began
  int32_t *lost;                   // [capacity]
  struct weft_ep_info info;        // of the last operation
  struct weft_ep_result result;
  bool renormalize;
  uint64_t last_epoch; // view in which the last operation ended; 0: there was none
  uint32_t *dirty;     // [groups] rows that hold data of earlier operations, at most
};

// The pattern of operations of this kind.
struct pattern traffic_pattern(const struct run_config *config, enum pattern_kind kind);

// Lets this rank's experts answer what was received; returns what to combine.
const void *traffic_experts(struct traffic *traffic, enum pattern_kind kind);

int traffic_input_open(struct traffic_input *input, const struct run_config *config);
void traffic_input_close(struct traffic_input *input);

#endif
