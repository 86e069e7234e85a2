// The kernels of an operation of many tokens, launched for one rank.
#include "cuda/support/flow_ranks.cuh"

__global__ static void advance(cuda_flow_op *op, cuda_state *state, uint64_t number) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  op->op = number;
  op->lost = op->answers_lost = 0;
  state->counters.sent = number;
}

// What all three kernels are told.
template <typename A> static A args_of(const flow_group &g, const flow_rank &r) {
  A args = {};
  args.state = r.state;
  args.route = r.route;
  args.flow = g.flow;
  args.topk = g.shape.topk;
  return args;
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

void flow_group::rows(flow_rank &r, bool kept, bool early) {
  cuda_rows_args args = args_of<cuda_rows_args>(*this, r);
  args.op = r.op;
  args.shape = row;
  args.kept = kept;
  args.members = shape.ranks;
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
  if (shape.layout == WEFT_EP_RANK_MAJOR) {
    args.local_expert = r.local_expert;
    args.weights = r.out_row_weights;
  }
  if (shape.layout == WEFT_EP_PACKED) {
    args.slot = r.slot;
    args.expert_end = r.expert_end;
  }
  args.workspace = r.rows_space;
  OK(cuda_launch_rows(&args, blocks_of(r), early, r.stream));
}

void flow_group::answers(flow_rank &r, bool early) {
  cuda_answers_args args = args_of<cuda_answers_args>(*this, r);
  args.op = r.op;
  args.rank_major = shape.layout == WEFT_EP_RANK_MAJOR;
  args.unweighted = shape.unweighted;
  args.coded = shape.coded;
  args.rows = r.rows;
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
  OK(cuda_launch_answers(&args, blocks_of(r), early, r.stream));
}

void flow_group::begin(flow_rank &r, uint64_t number, bool early) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = early;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = r.stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  OK(cudaLaunchKernelEx(&config, advance, r.op, r.state, number));
}
