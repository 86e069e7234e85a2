// Ranks of one process, on one GPU or several. Their operations of many tokens use only the kernels that move rows: the
// host writes the data that control would write. The host also computes the expected results.
#ifndef TESTS_CUDA_FLOW_RANKS_CUH
#define TESTS_CUDA_FLOW_RANKS_CUH

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/kernels/state.h"
#include "cuda/support/devices.cuh"
#include "cuda/support/flow_relays.cuh"
#include "cuda/support/flow_shape.cuh"
#include "cuda/throughput/launch.h"

enum { CAPACITY = 256, FILL = 0xA5 }; // of a group; byte of outputs that were not written

// The inputs of a rank, its memory and its outputs.
struct flow_rank {
  uint32_t index, tokens;
  int32_t rank;
  int device;
  cudaStream_t stream, second;
  cudaEvent_t passed; // from one stream to the other
  // host
  std::vector<char> x;                // rows of the caller
  std::vector<char> sent, row_scales; // rows and scales as they are sent, one after the other
  std::vector<int64_t> topk;
  std::vector<float> weights;
  std::vector<uint16_t> y, bias[2];
  std::vector<float> row_weights;
  std::vector<int32_t> number, row_of;     // [T][K]
  std::vector<std::vector<int32_t>> pairs; // by source: its tokens with selections of this rank, in order
  // device
  cuda_state *state;
  device_report *report;
  cuda_route *route;
  cuda_route host_route;
  cuda_flow_op *op;
  cuda_flow_op host_op;
  char *dx, *dscales;
  void *dtopk;
  float *dweights;
  char *out, *out_scales;
  int32_t *counts, *src_rank, *src_token, *local_expert, *slot, *expert_end;
  int64_t *range;
  float *out_row_weights; // [rows][K] received, PACKED [rows]
  uint16_t *dy, *dbias[2], *sum;
  float *drow_weights, *sum_weights;
  char *zero_copy; // y and the row weights may be at its begin
  uint64_t *missing;
  uint32_t *plan_space, *rows_space;
  uint32_t rows; // the room for them
  size_t buffer_rows;
};

struct flow_group {
  flow_shape shape;
  cuda_flow flow;
  cuda_row_shape row;
  std::vector<flow_rank> all;
  std::vector<std::vector<char *>> window;                 // [reader][writer]; with relays [i][i] only
  std::unique_ptr<flow_relays> relays;                     // with shape.relayed: all other windows
  std::vector<std::vector<std::vector<uint32_t>>> counted; // [to][source][e]
  int devices;
  uint64_t next = 1000;
  std::string wrong;

  explicit flow_group(const flow_shape &shape);
  ~flow_group();
  flow_group(const flow_group &) = delete;

  // Runs an operation with its combines, and the same once more with the kept route. False: `wrong` gives the reason.
  bool try_all();
  // The streams that rank `of` reads and rank `by` writes: read() is their address for `of`, written() for `by`.
  char *read(uint32_t of, uint32_t by) const { return relays && of != by ? relays->read(of, by) : window[of][by]; }
  char *written(uint32_t of, uint32_t by) const {
    return relays && of != by ? relays->written(of, by) : window[of][by];
  }
  // Calls `what` for one rank after the other, with the rank's device current.
  void each(const std::function<void(flow_rank &)> &what);
  // Waits for the streams of all ranks.
  void wait();

  // flow_launch.cu: launches in the rank's streams; `early` as in launch.h.
  void begin(flow_rank &r, uint64_t number, bool early = false);
  void plan(flow_rank &r, bool early = false);
  void rows(flow_rank &r, bool kept, bool early = false, uint32_t halves = DEVICE_SEND | DEVICE_RECV);
  void answers(flow_rank &r, bool early = false, uint32_t halves = DEVICE_SEND | DEVICE_RECV);
  void end_combine(flow_rank &r);
  // The same for all ranks, in halves where the shape asks for them.
  void all_rows(bool kept);
  void all_answers();
  bool is_halved(const flow_rank &r) const {
    return shape.halves == HALVES || (shape.halves == MIXED && r.index % 2 == 0);
  }
  uint32_t blocks_of(const flow_rank &r) const { return shape.blocks[r.index % shape.blocks.size()]; }

  // flow_inputs.cu: a rank's inputs on the host, and the places of its rows.
  uint32_t seat_of(uint32_t i, uint32_t peer) const { return (peer * 5 + i * 3 + 1) % 64; }
  int member_of(int64_t expert) const;         // the index of the expert's rank, or -1
  uint32_t pairs_of(const flow_rank &r) const; // rows that the rank receives with RANK_MAJOR
  void make_inputs(flow_rank &r);
  void make_row(flow_rank &r, uint64_t seed, size_t t);
  void cast_row(const uint16_t *x, char *out, uint32_t *words) const;
  uint32_t only_peer(uint64_t seed, size_t t) const;
  void make_selections(flow_rank &r, uint64_t seed);
  void route_all(flow_rank &r);
  void count_all();

  // flow_device.cu: the memory of a rank on its GPU.
  void make_device(flow_rank &r);
  void make_room(flow_rank &r);
  void make_state(flow_rank &r);
  void make_route(flow_rank &r);
  void write_control(flow_rank &r);
  void upload_inputs(flow_rank &r);
  void make_outputs(flow_rank &r);
  void make_combine(flow_rank &r);
  uint64_t zero_copy_bytes() const; // of each rank
  bool is_zero_copy(const flow_rank &r) const { return shape.zero_copy && r.index % shape.zero_copy == 0; }
  void show_zero_copy(flow_rank &r); // after all ranks have made their zero-copy memory
  // Fills the outputs with FILL.
  void clear(flow_rank &r);

  // flow_check.cu and flow_check_rows.cu: compare a rank's results with the expected ones.
  using places = std::vector<std::vector<int64_t>>; // [source][token * K + k]
  bool check_plan(flow_rank &r);
  bool check_rows(flow_rank &r);
  bool check_values(flow_rank &r, const places &place, const std::vector<uint32_t> &bounds);
  bool check_counts(flow_rank &r);
  bool check_packed(flow_rank &r, const places &place, const std::vector<uint32_t> &bounds);
  bool check_selections(flow_rank &r, const places &place);
  bool check_sums(flow_rank &r);
  places places_of(const flow_rank &to, std::vector<uint32_t> *begins = nullptr);
  bool complain(const char *what, const flow_rank &r, size_t at, long long is, long long should);
  template <typename T>
  bool same(const char *what, const flow_rank &r, const std::vector<T> &is, const std::vector<T> &should) {
    for (size_t i = 0; i < should.size(); i++)
      if (memcmp(&is[i], &should[i], sizeof(T)) != 0) {
        long long a = 0, b = 0;
        memcpy(&a, &is[i], sizeof(T)), memcpy(&b, &should[i], sizeof(T));
        return complain(what, r, i, a, b);
      }
    return true;
  }
};

#endif
