// Launches the kernels of an operation with many tokens.
#include "cuda/support/flow_ranks.cuh"

// Does what control does when an operation begins. `goes`: seats that get rows. `ends`: end_answers() alone sets
// sent.answers, as in a group; otherwise answers wait until their readers have begun this operation.
__global__ static void advance(cuda_flow_op *op, cuda_state *state, uint64_t number, uint64_t goes, bool ends) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  uint32_t seat = threadIdx.x;
  cuda_flow_sent *sent = op->seats >> seat & 1 ? &((cuda_flow_head *)op->in[seat])->sent : nullptr;
  if (sent && goes >> seat & 1) {
    sent->rows = sent->newest;
    sent->newest = number + 1;
  }
  if (sent && !ends)
    sent->answers = number * EP_MAX_COMBINES;
  if (seat != 0)
    return;
  op->op = number;
  op->answer = number * EP_MAX_COMBINES;
  op->lost = op->answers_lost = 0;
  state->counters.sent = number;
}

// Does what control does when a combine has ended.
__global__ static void end_answers(cuda_flow_op *op, bool by_rank) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  for (uint32_t seat = 0; seat < DEVICE_SEATS; seat++)
    if (op->seats >> seat & 1 && op->rows[seat] > 0 && !(by_rank && seat == op->self))
      ((cuda_flow_head *)op->in[seat])->sent.answers = op->answer + 1;
  op->answer++;
}

static void set_route(const cuda_route *&to, const flow_rank &r) {
  to = r.route;
}
static void set_route(cuda_route &to, const flow_rank &r) {
  to = r.host_route;
}

// The arguments that all three kernels have.
template <typename A> static A args_of(const flow_group &g, const flow_rank &r) {
  A args = {};
  args.state = r.state;
  set_route(args.route, r);
  args.flow = g.flow;
  args.topk = g.shape.topk;
  return args;
}

static cudaStream_t stream_of(const flow_shape &shape, const flow_rank &r, uint32_t halves) {
  return shape.two_streams && halves == DEVICE_RECV ? r.second : r.stream;
}

void flow_group::plan(flow_rank &r, bool early) {
  cuda_plan_args args = args_of<cuda_plan_args>(*this, r);
  args.topk_idx = r.dtopk;
  args.num_tokens = r.tokens;
  args.workspace = r.plan_space;
  args.members = shape.ranks;
  args.narrow = shape.narrow;
  OK(cuda_launch_plan(&args, blocks_of(r), early, r.stream));
}

void flow_group::rows(flow_rank &r, bool kept, bool early, uint32_t halves) {
  cuda_rows_args args = args_of<cuda_rows_args>(*this, r);
  args.op = r.op;
  args.shape = row;
  args.kept = kept;
  args.halves = halves;
  args.members = args.ranks = shape.ranks;
  args.layout = shape.layout;
  args.keep_places = shape.keep_places;
  args.zero_padding = shape.zero_padding;
  args.alignment = shape.alignment;
  args.capacity = CAPACITY;
  args.x = r.dx;
  args.scales = r.dscales;
  args.topk_weights = kept ? nullptr : r.dweights;
  args.rows = r.rows;
  if (shape.columns && row.scale_words) {
    args.scale_row_stride = 1;
    args.scale_block_stride = std::max(r.tokens, 1u);
    args.out_scale_row_stride = 1;
    args.out_scale_block_stride = (uint32_t)r.buffer_rows;
    args.out_scale_expert_stride = r.rows;
  }
  args.out = r.out;
  args.out_scales = r.out_scales;
  args.counts = r.counts;
  args.src_rank = r.src_rank;
  args.src_token = r.src_token;
  args.range = r.range;
  if (shape.layout == WEFT_EP_RANK_MAJOR)
    args.local_expert = r.local_expert;
  if (shape.layout != WEFT_EP_PER_EXPERT)
    args.weights = r.out_row_weights;
  if (shape.layout == WEFT_EP_PACKED) {
    args.slot = r.slot;
    args.expert_end = r.expert_end;
  }
  args.workspace = r.rows_space;
  args.max_rows = r.host_route.max_rows;
  OK(cuda_launch_rows(&args, blocks_of(r), early, stream_of(shape, r, halves)));
}

void flow_group::answers(flow_rank &r, bool early, uint32_t halves) {
  cuda_answers_args args = args_of<cuda_answers_args>(*this, r);
  args.op = r.op;
  args.halves = halves;
  args.rank_major = shape.layout == WEFT_EP_RANK_MAJOR;
  args.unweighted = shape.unweighted;
  args.coded = shape.coded;
  args.rows = (uint32_t)r.buffer_rows;
  args.y = r.dy;
  args.topk_idx = r.dtopk;
  args.narrow = shape.narrow;
  args.topk_weights = r.dweights;
  args.row_weights = r.drow_weights;
  args.bias[0] = r.dbias[0];
  args.bias[1] = r.dbias[1];
  args.out = r.sum;
  args.out_weights = shape.weights_back ? r.sum_weights : nullptr;
  args.missing = r.missing;
  args.zero_copy = {r.zero_copy, zero_copy_bytes(),
                    is_zero_copy(r) && args.rank_major && !args.coded && halves == (DEVICE_SEND | DEVICE_RECV)};
  OK(cuda_launch_answers(&args, blocks_of(r), early, stream_of(shape, r, halves)));
}

void flow_group::end_combine(flow_rank &r) {
  end_answers<<<1, 1, 0, r.stream>>>(r.op, shape.layout == WEFT_EP_RANK_MAJOR);
  OK(cudaGetLastError());
}

// Makes later work of the stream `to` wait for the stream `from`.
static void pass(const flow_shape &shape, flow_rank &r, cudaStream_t from, cudaStream_t to) {
  if (!shape.two_streams)
    return;
  OK(cudaEventRecord(r.passed, from));
  OK(cudaStreamWaitEvent(to, r.passed, 0));
}

void flow_group::all_rows(bool kept) {
  each([&](flow_rank &r) { rows(r, kept, false, is_halved(r) ? DEVICE_SEND : DEVICE_SEND | DEVICE_RECV); });
  each([&](flow_rank &r) {
    if (!is_halved(r))
      return;
    pass(shape, r, r.stream, r.second);
    rows(r, kept, false, DEVICE_RECV);
    pass(shape, r, r.second, r.stream);
  });
}

void flow_group::all_answers() {
  each([&](flow_rank &r) { answers(r, false, is_halved(r) ? DEVICE_SEND : DEVICE_SEND | DEVICE_RECV); });
  each([&](flow_rank &r) {
    if (is_halved(r)) {
      pass(shape, r, r.stream, r.second);
      answers(r, false, DEVICE_RECV);
      pass(shape, r, r.second, r.stream);
    }
    end_combine(r);
  });
}

void flow_group::begin(flow_rank &r, uint64_t number, bool early) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = early;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(DEVICE_SEATS);
  config.stream = r.stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  uint64_t goes = 0;
  for (uint32_t j = 0; j < shape.ranks; j++)
    goes |= j != r.index && !all[j].pairs[r.index].empty() ? 1ull << seat_of(r.index, j) : 0;
  OK(cudaLaunchKernelEx(&config, advance, r.op, r.state, number, goes, is_halved(r)));
}
