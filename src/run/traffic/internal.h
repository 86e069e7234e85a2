// Declarations that the files of this folder share.
#ifndef RUN_TRAFFIC_INTERNAL_H
#define RUN_TRAFFIC_INTERNAL_H

#include "run/traffic/traffic.h"

// A rank's input, in host memory.
struct traffic_input {
  uint32_t num_tokens;
  uint16_t *x;    // [T][H]; for this rank itself a part of its pool
  int64_t *topk;  // [T][K]
  float *weights; // [T][K]
};

// The memory of an operation, and its host copy, which the experts and the judge see. In host memory both are the same.
struct traffic_pair {
  void *host, *place;
  size_t size;
  bool is_large; // the used part is much smaller
  bool is_lent;  // `place` is the group's zero-copy memory
};

enum {
  PAIR_X,
  PAIR_SCALES,
  PAIR_Y,
  PAIR_FIRST_LIST,
  PAIR_COUNTS = PAIR_FIRST_LIST,
  PAIR_SRC_RANK,
  PAIR_SRC_TOKEN,
  PAIR_RANGE,
  PAIR_LOCAL_EXPERT,
  PAIR_WEIGHTS,
  PAIR_SLOT,
  PAIR_EXPERT_END,
  PAIR_OUT,  // ends the lists
  PAIR_BIAS, // this and the next; pairs from here on exist only if operations have forms
  PAIR_ROW_WEIGHTS = PAIR_BIAS + 2,
  PAIR_OUT_WEIGHTS,
  NUM_PAIRS,
};

// All rows that this rank ever sends. They are made when the traffic is opened, so that no operation waits for a rank
// that makes its rows: rows for operations of the constant kind, and a pool of which each other operation takes a part.
// The first rows of the pool are repeated after its last ones, so that each part is contiguous.
struct traffic_pool {
  uint32_t rows;   // rows of the pool, without the repeated ones
  uint16_t *host;  // [T + rows + T][H]: the constant rows first
  uint16_t *place; // the same rows in the memory that operations read
};

// The rows that are combined.
enum traffic_answer {
  TRAFFIC_SAME,    // the rows as they were received: identities, without a copy
  TRAFFIC_EXPERTS, // the outputs of the experts, computed on the host
  TRAFFIC_HELD,    // rows that are already in y, all values the same: on a GPU, if no work may run between two halves
};

// Every byte of the rows that are held. In the PER_EXPERT layout the combine weights these rows, so the sums show which
// weights arrived. In the RANK_MAJOR layout the caller would have to weight them, so they are zeroes there.
enum { TRAFFIC_HELD_BYTE = 0x3F };

// The operation that filled the route.
struct traffic_filled {
  weft_ep_route_t *route; // NULL: there is none
  uint64_t op;
  enum pattern_kind kind;
  uint32_t num_tokens, num_ranks;
  int32_t *ranks; // [capacity] the view in which it began
};

struct traffic {
  weft_ep_t *ep;
  const struct run_config *config;
  struct buffer_home *home;
  uint32_t capacity, max_ranks;
  uint32_t rows;   // of an expert's part, or of the whole receive buffer
  uint32_t groups; // parts of the receive buffer: experts, or 1
  struct traffic_pair pairs[NUM_PAIRS];
  struct traffic_pool pool;
  bool shares_pool;         // the pool belongs to another traffic
  bool has_forms;           // the buffers of forms exist
  struct traffic_form form; // of the next operation, and of the last one
  struct traffic_filled filled;
  struct traffic_input input; // this rank's, of the last operation
  const uint16_t *x;          // the same rows, where the operation reads them
  int64_t *topk;
  float *weights;
  struct traffic_input *others;    // [max_ranks], for the judge; made when first needed
  struct weft_ep_recv_args recv;   // the host's copies
  struct weft_ep_recv_args place;  // the memory that the operation writes
  uint16_t *y;                     // the experts' outputs, on the host
  uint16_t *row;                   // [K + 1][H], an expert's work space
  uint16_t *out;                   // [T][H], on the host
  uint16_t *narrow;                // [T][128]: rows with which the routing is made
  struct weft_ep_missing *missing; // [T][K]
  int32_t *ranks;                  // [capacity] view in which the last operation began
  int32_t *lost;                   // [capacity]
  struct weft_ep_info info;        // of the last operation
  struct weft_ep_result result;
  enum traffic_answer answer; // of the last operation
  bool renormalize;
  bool has_copies;     // the host has copies of what the last operation received
  uint64_t last_epoch; // view in which the last operation ended; 0: there was none
  uint32_t *dirty;     // [groups] maximum of rows that contain data of earlier operations
  uint32_t *unheld;    // [groups] maximum of rows of y without the values for TRAFFIC_HELD
  void *cover;         // on a GPU: memory that is filled to keep the GPU busy
  void *marks[4];      // on a GPU: begin and end of dispatch, begin and end of combine
};

// input.c
struct pattern traffic_pattern(const struct run_config *config, enum pattern_kind kind);
int traffic_input_open(struct traffic_input *input, const struct run_config *config, bool with_rows);
void traffic_input_close(struct traffic_input *input, bool with_rows);
int traffic_pool_open(struct traffic *traffic); // makes the rows
void traffic_pool_close(struct traffic *traffic);
// Finds this rank's rows of the operation and makes its routing, in t->input and in the memory that the operation
// reads.
int traffic_prepare_input(struct traffic *traffic, const struct traffic_op *op);
int traffic_check_number(uint64_t expected, uint64_t begun); // DATA: dispatch began another operation than prepared

// form.c: the arguments that the form of an operation adds, the combine of that form, and checks of a filled route.
int traffic_form_open(struct traffic *traffic);
void traffic_form_close(struct traffic *traffic);
int traffic_form_prepare(struct traffic *traffic, struct traffic_op *op);
void traffic_form_dispatch(const struct traffic *traffic, struct weft_ep_dispatch_args *args);
void traffic_form_receive(const struct traffic *traffic, struct weft_ep_recv_args *args);
void traffic_form_combine(const struct traffic *traffic, struct weft_ep_combine_args *args);
int traffic_form_answer(struct traffic *traffic); // copies the row weights that are sent back from the host
int traffic_form_note(struct traffic *traffic, const struct traffic_op *op); // after the receive
int traffic_combine(struct traffic *traffic, const struct weft_ep_combine_args *args, struct weft_ep_result *result,
                    uint64_t *op);
float *traffic_form_weights(const struct traffic *traffic); // [T][K] the values that are sent back; to be freed
int traffic_form_judge(struct traffic *traffic, const struct traffic_op *op); // the counts of a route that was filled

// buffers.c
int traffic_memory_open(struct traffic *traffic);
void traffic_memory_close(struct traffic *traffic);
int traffic_poison(struct traffic *traffic);
int traffic_hold(struct traffic *traffic); // to be called before an operation that answers with held rows
// copies to the host, unless already there. DATA: impossible counts
int traffic_get_received(struct traffic *traffic);
int traffic_get_out(struct traffic *traffic);
int traffic_put_answer(struct traffic *traffic); // copies the used rows of y from the host
void traffic_note_dirty(struct traffic *traffic);

// gpu.c: one operation in a stream, timed by the device.
int traffic_gpu_open(struct traffic *traffic);
void traffic_gpu_close(struct traffic *traffic);
int traffic_gpu_rehearse(struct traffic *traffic); // the fill and the marks around it
int traffic_gpu_operate(struct traffic *traffic, struct weft_ep_dispatch_args *dispatch,
                        struct weft_ep_combine_args *combine, struct traffic_op *op);

// judge.c: allocates memory for the inputs of all ranks, at the first use.
int traffic_open_others(struct traffic *traffic);

// experts.c: lets this rank's experts answer what was received, into y.
void traffic_experts(struct traffic *traffic, enum pattern_kind kind);

#endif
