// Ranks on GPUs that use the public interface. Each rank is a thread of this process, on device (index % number of
// devices). A failure prints a sentence and ends the process. Ranks allocate and free nothing while kernels may run:
// CUDA may make such a call wait for the kernels, and the kernels may wait for the rank that made the call.
#ifndef TESTS_CUDA_API_CUH
#define TESTS_CUDA_API_CUH

#include <cuda_runtime.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include <weft/ep.h>

extern "C" {
#include "ep/oracle/oracle.h"
#include "ep/oracle/pattern.h"
}

enum {
  RANKS = 3,
  CAPACITY = 4,
  TOKENS = 32,
  HIDDEN = 1024,
  TOPK = 4,
  EXPERTS = 4, // per rank
  ROWS = RANKS * TOKENS,
  DEADLINE_MS = 30000,
  TIMEOUT_MS = 10000, // of operations
};

// Rows, counts and outputs, on the host.
struct copies {
  std::vector<uint16_t> x, out;
  std::vector<float> scales;
  std::vector<int32_t> counts, src_rank, src_token;
  std::vector<int64_t> range;
};

struct world;

struct rank {
  struct world *world;
  int32_t index;
  int device;
  uint32_t sharers; // ranks on the device
  cudaStream_t stream;
  weft_ep_t *ep;
  struct weft_ep_dispatch_args dispatch;
  weft_ep_recv_args recv;
  struct weft_ep_combine_args combine; // y is recv.x: the experts are the identity
  uint32_t tokens;                     // of its next operation
  // For calls with more arguments (calls.cu), in device memory
  int64_t *wide; // topk_idx
  int32_t *narrow;
  uint16_t *spare, *outputs; // [TOKENS] longer rows; [EXPERTS][ROWS][HIDDEN]
  uint32_t *number;
  weft_ep_recv_status *status;
  uint64_t *lost_bits;
  int32_t *masks, *local_expert;
  float *local_weights, *given;
  // Of the last operation
  uint64_t op;
  weft_ep_info info;
  weft_ep_result result;
  int32_t lost[RANKS];
  weft_ep_missing missing[TOKENS * TOPK];

  [[noreturn]] void die(const char *format, ...) const __attribute__((format(printf, 2, 3)));
  void must(int rc, const char *what) const;
  void cuda(cudaError_t error, const char *what) const;
  void copy(void *to, const void *from, size_t size, cudaMemcpyKind kind) const;
  // Waits for the stream.
  void drain(const char *what) const;
  // Makes a graph of an operation and of the launches of `more` after it.
  cudaGraphExec_t capture(const std::function<void()> &more = nullptr);
  // Runs the graph and gets its results. Fails the test if a rank was lost.
  void replay(cudaGraphExec_t exec);
  // Runs the graph until it has run in a view of `num_ranks` ranks. All ranks get this view with the same operation, so
  // they end together.
  void replay_until(cudaGraphExec_t exec, uint32_t num_ranks);

  // Opens the rank in a group with the founders 0 to `founders` - 1. A rank with a higher index joins the group.
  void open(int32_t founders, uint32_t op_timeout_ms, uint32_t operations_per_step = 1);
  void activate(int32_t founders);
  void close();
  // Opens and activates the rank in a group that all ranks found.
  void found();
  // Closes the rank after all ranks have called this, since the others may need it until then.
  void leave();
  // Makes the rank's tokens from `key`, which select experts of the ranks `routed`, and poisons the outputs.
  void fill(uint64_t key, const std::vector<int32_t> &routed);
  // Makes new rows for the same selections as in the previous operation, and poisons the outputs.
  void fill_x(uint64_t key);
  // The rows and the selections that rank `from` has for `key`.
  std::vector<uint16_t> x_of(int32_t from, uint64_t key) const;
  std::vector<int64_t> selections_of(int32_t from, uint64_t key) const;
  void poison();
  void poison_out();
  // Top-k and type of the next operation's rows.
  uint32_t topk() const { return dispatch.topk ? dispatch.topk : (uint32_t)TOPK; }
  weft_ep_dtype dtype() const { return dispatch.dtype ? dispatch.dtype : WEFT_EP_BF16; }
  // Computes y on the host: the received rows, converted to bf16.
  void run_experts();
  // Gets info and result of operation `op`.
  void ask();
  // Moves scales that were received with the strides of recv to their usual places.
  void gather_scales();
  // Dispatches rows that the test has cast, with scales block by block, and judges dispatch and combine.
  void send_given_scales(uint64_t key);
  // Checks the experts and weights of each received row: RANK_MAJOR with KEEP_PLACES.
  void judge_places(uint64_t key) const;
  // Runs dispatch and combine; `op`, `info` and `result` are those of this operation.
  void pair();
  // Gets `op`, `info` and `result` of the newest operation of a graph, without the list of missing contributions.
  void ask_newest();
  // Fails the test if any rank was lost so far.
  void check_whole() const;
  copies fetch() const;
};

// The expected results of an operation of a rank.
struct expected {
  uint64_t key;
  std::vector<int32_t> routed, view;
  int32_t masked_by;            // a rank that masks this one, so that its tokens do not arrive; -1: none
  std::vector<int32_t> missing; // ranks whose contributions do not arrive
  std::vector<int32_t> lost;    // ranks that are lost, so that their tokens do not arrive
};

const std::vector<int32_t> &first_ranks(int32_t count);
expected all_there(uint64_t key);
// Lets the oracle judge dispatch and combine.
void judge(const rank &r, const expected &is);
// Lets the oracle judge the combine only; rows may have been received in any layout.
void judge_combine(const rank &r, const expected &is, const oracle_answer &answer);

struct world {
  weft_store_t *store;
  int devices;
  rank ranks[RANKS];
  std::mutex lock;
  std::condition_variable changed;
  int32_t came;
  uint64_t meeting;

  // Runs `body` for each rank in a separate thread, with the rank's device current.
  void run(const std::function<void(rank &)> &body);
  // Waits until all ranks have called this.
  void meet(const rank &r, const char *where);
};

#endif
