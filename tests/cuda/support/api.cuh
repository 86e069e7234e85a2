// Ranks on GPUs by the public interface, for api.cu: each is a thread of this process, on device (its index) %
// count. What goes wrong ends the process with a sentence. Nothing is allocated or freed while kernels may run: CUDA
// may let that wait for them, and they may wait for the rank that would.
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
  // For calls that say more for themselves (calls.cu), on the device
  int64_t *wide; // topk_idx
  int32_t *narrow;
  uint16_t *spare, *outputs; // [TOKENS] longer rows; [EXPERTS][ROWS][HIDDEN]
  uint32_t *number;
  weft_ep_told *told;
  uint64_t *lost_bits;
  int32_t *masks, *local_expert;
  float *local_weights, *given;
  // Of the operation before
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
  // A graph of an operation, and what `more` launches behind it.
  cudaGraphExec_t capture(const std::function<void()> &more = nullptr);
  // Runs it, and asks what it did.
  void replay(cudaGraphExec_t exec);
  // Until it has run in a view of so many ranks. Ranks see that with the same operation, so they end together.
  void replay_until(cudaGraphExec_t exec, uint32_t num_ranks);

  // The rank in a group that `founders` of this test found, 0 to founders - 1; or one that joins it.
  void open(int32_t founders, uint32_t op_timeout_ms);
  void activate(int32_t founders);
  void close();
  // Opens and activates it in a group that all ranks found.
  void found();
  // Waits for the others before it closes: until then they may count on this rank.
  void leave();
  // Its tokens are those of `key`, and select among the experts of these ranks. The outputs are poisoned.
  void fill(uint64_t key, const std::vector<int32_t> &routed);
  // New rows, which go where those of the operation before went.
  void fill_x(uint64_t key);
  // What rank `from` fills in for `key`: rows, and selections.
  std::vector<uint16_t> x_of(int32_t from, uint64_t key) const;
  std::vector<int64_t> selections_of(int32_t from, uint64_t key) const;
  void poison();
  void poison_out();
  // What the operation's dispatch and combine say of the rows: types and top-k.
  uint32_t topk() const { return dispatch.topk ? dispatch.topk : (uint32_t)TOPK; }
  weft_ep_dtype dtype() const { return dispatch.dtype ? dispatch.dtype : WEFT_EP_BF16; }
  // Makes y from what was received, brought back to bf16, on the host.
  void run_experts();
  // What the newest operation of its own did.
  void ask();
  // Brings scales that were received with the strides of recv to their usual places.
  void gather_scales();
  // Dispatches rows that it has cast itself, with scales block by block, and judges both halves.
  void send_given_scales(uint64_t key);
  // Rank-major, KEEP_PLACES: the experts and weights of each row.
  void judge_places(uint64_t key) const;
  // An operation; what it did is in `op`, `info` and `result`.
  void pair();
  // What the newest operation did, a graph's: the list of what is missing is not there.
  void ask_newest();
  // Nobody was lost, ever.
  void check_whole() const;
  copies fetch() const;
};

// What an operation is to have done to a rank.
struct expected {
  uint64_t key;
  std::vector<int32_t> routed, view;
  int32_t masked_by;            // its tokens do not come here; -1: nobody's
  std::vector<int32_t> missing; // whose contributions do not come
  std::vector<int32_t> lost;    // whose tokens do not come, since they are lost
};

const std::vector<int32_t> &first_ranks(int32_t count);
expected all_there(uint64_t key);
// Both halves, by the oracle.
void judge(const rank &r, const expected &is);
// The second half of one whose rows were received in any layout.
void judge_combine(const rank &r, const expected &is, const oracle_answer &answer);

struct world {
  weft_store_t *store;
  int devices;
  rank ranks[RANKS];
  std::mutex lock;
  std::condition_variable changed;
  int32_t came;
  uint64_t meeting;

  // Runs `body` for each rank in a thread of its own, with its device current.
  void run(const std::function<void(rank &)> &body);
  // Waits for all ranks' threads.
  void meet(const rank &r, const char *where);
};

#endif
