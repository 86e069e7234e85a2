// Ranks of one process, on one GPU or several, whose operations of many tokens are moved by the kernels alone: the host
// says what control would. And what has to come out of them, computed by the host.
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

enum { CAPACITY = 256, FILL = 0xA5 }; // of a group; where nothing has come

// What a rank has, and what it is to get.
struct flow_rank {
  uint32_t index, tokens;
  int32_t rank;
  int device;
  cudaStream_t stream, second;
  cudaEvent_t passed; // from one stream to the other
  // host
  std::vector<char> x;                // as the caller has it
  std::vector<char> sent, row_scales; // as they travel, one behind the other
  std::vector<int64_t> topk;
  std::vector<float> weights;
  std::vector<uint16_t> y, bias[2];
  std::vector<float> row_weights;
  std::vector<int32_t> number, row_of;     // [T][K]
  std::vector<std::vector<int32_t>> pairs; // by source: its tokens, in order
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
  float *out_row_weights; // [rows][K] received
  uint16_t *dy, *dbias[2], *sum;
  float *drow_weights, *sum_weights;
  char *zero_copy; // whose begin y and row weights may be
  uint64_t *missing;
  uint32_t *plan_space, *rows_space;
  uint32_t rows; // room
  size_t buffer_rows;
};

struct flow_group {
  flow_shape shape;
  cuda_flow flow;
  cuda_row_shape row;
  std::vector<flow_rank> all;
  std::vector<std::vector<char *>> window;                 // [of][written by]; relayed: this rank's own alone
  std::unique_ptr<flow_relays> relays;                     // of all others, then
  std::vector<std::vector<std::vector<uint32_t>>> counted; // [to][source][e]
  int devices;
  uint64_t next = 1000;
  std::string wrong;

  explicit flow_group(const flow_shape &shape);
  ~flow_group();
  flow_group(const flow_group &) = delete;

  // One operation, its combine, and both again by the kept route. False: `wrong` says what.
  bool try_all();
  // The streams between rank `of`, which reads them, and `by`, which writes them, as the one and the other see them.
  char *read(uint32_t of, uint32_t by) const { return relays && of != by ? relays->read(of, by) : window[of][by]; }
  char *written(uint32_t of, uint32_t by) const {
    return relays && of != by ? relays->written(of, by) : window[of][by];
  }
  // Calls `what` for one rank after the other, with its device current.
  void each(const std::function<void(flow_rank &)> &what);
  // For all ranks' streams.
  void wait();

  // flow_launch.cu: in the rank's stream; `early` as in launch.h.
  void begin(flow_rank &r, uint64_t number, bool early = false);
  void plan(flow_rank &r, bool early = false);
  void rows(flow_rank &r, bool kept, bool early = false, uint32_t halves = DEVICE_SEND | DEVICE_RECV);
  void answers(flow_rank &r, bool early = false, uint32_t halves = DEVICE_SEND | DEVICE_RECV);
  void end_combine(flow_rank &r);
  // Those of all ranks, each as the shape says.
  void all_rows(bool kept);
  void all_answers();
  bool is_halved(const flow_rank &r) const {
    return shape.halves == HALVES || (shape.halves == MIXED && r.index % 2 == 0);
  }
  uint32_t blocks_of(const flow_rank &r) const { return shape.blocks[r.index % shape.blocks.size()]; }

  // flow_inputs.cu: what a rank has on the host, and where its rows go.
  uint32_t seat_of(uint32_t i, uint32_t peer) const { return (peer * 5 + i * 3 + 1) % 64; }
  int member_of(int64_t expert) const;         // its index, or -1
  uint32_t pairs_of(const flow_rank &r) const; // rows that it gets, by rank
  void make_inputs(flow_rank &r);
  void make_row(flow_rank &r, uint64_t seed, size_t t);
  void cast_row(const uint16_t *x, char *out, uint32_t *words) const;
  void make_selections(flow_rank &r, uint64_t seed);
  void route_all(flow_rank &r);
  void count_all();

  // flow_device.cu: what it has on its GPU.
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
  void show_zero_copy(flow_rank &r); // when all have it
  // Fills what it gets with FILL.
  void clear(flow_rank &r);

  // flow_check.cu and flow_check_rows.cu: whether it has got what it was to get.
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
