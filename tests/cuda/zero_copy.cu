// A rank combines from its zero-copy memory, gives up a reader that is late, and writes there again. If that reader
// then reads after all, it adds nothing of what it has read, and reports this.
#include <algorithm>

#include "cuda/support/flow_ranks.cuh"

namespace {

// Holds a stream up until the host says so.
__global__ void hold(const volatile uint32_t *go) {
  while (!*go)
    ;
}

// What rank `r` is to have without answers of others: its own row of each token, and who is missing.
bool has_own_rows_alone(flow_group &group, flow_rank &r) {
  const flow_shape &shape = group.shape;
  size_t H = shape.hidden;
  std::vector<uint16_t> sum((size_t)r.tokens * H), none(H, 0);
  std::vector<uint64_t> missing(r.tokens);
  OK(cudaMemcpy(sum.data(), r.sum, sum.size() * sizeof(uint16_t), cudaMemcpyDeviceToHost));
  OK(cudaMemcpy(missing.data(), r.missing, missing.size() * sizeof(uint64_t), cudaMemcpyDeviceToHost));
  size_t base = 0; // of its own rows, in the order of ranks
  for (uint32_t i = 0; i < r.index; i++)
    base += r.pairs[i].size();
  const std::vector<int32_t> &own = r.pairs[r.index];
  for (uint32_t t = 0; t < r.tokens; t++) {
    size_t at = std::lower_bound(own.begin(), own.end(), (int32_t)t) - own.begin();
    bool here = at < own.size() && own[at] == (int32_t)t;
    const uint16_t *should = here ? &r.y[(base + at) * H] : none.data();
    if (memcmp(&sum[t * H], should, H * sizeof(uint16_t)) != 0)
      return group.complain("sum", r, t, sum[t * H], should[0]);
    uint64_t others = 0;
    for (uint32_t j = 0; j < shape.ranks; j++) {
      const std::vector<int32_t> &theirs = group.all[j].pairs[r.index];
      bool sent = std::binary_search(theirs.begin(), theirs.end(), (int32_t)t);
      others |= j != r.index && sent ? 1ull << group.seat_of(r.index, j) : 0;
    }
    if (missing[t] != others)
      return group.complain("missing", r, t, (long long)missing[t], (long long)others);
  }
  return true;
}

bool has_lost(flow_group &group, flow_rank &r, uint32_t peer) {
  cuda_flow_op told;
  OK(cudaMemcpy(&told, r.op, sizeof told, cudaMemcpyDeviceToHost));
  uint64_t should = 1ull << group.seat_of(r.index, peer);
  return told.answers_lost == should || group.complain("lost", r, 0, (long long)told.answers_lost, (long long)should);
}

bool try_late_reader(flow_group &group) {
  flow_rank &writer = group.all[0], &reader = group.all[1];
  uint32_t *go;
  OK(cudaHostAlloc((void **)&go, sizeof *go, cudaHostAllocMapped));
  *(volatile uint32_t *)go = 0;
  uint64_t op = group.next++;
  group.each([&](flow_rank &r) {
    group.clear(r);
    group.begin(r, op);
    group.plan(r);
  });
  group.all_rows(false);
  group.wait();
  OK(cudaSetDevice(reader.device));
  hold<<<1, 1, 0, reader.stream>>>(go);
  OK(cudaGetLastError());
  group.answers(reader);
  OK(cudaSetDevice(writer.device));
  group.answers(writer);
  OK(cudaStreamSynchronize(writer.stream)); // when it has given the reader up
  OK(cudaMemsetAsync(writer.dy, 0x7F, writer.y.size() * sizeof(uint16_t), writer.stream));
  OK(cudaStreamSynchronize(writer.stream)); // not the device's: the reader may be held on the same one
  bool right = has_lost(group, writer, 1) && has_own_rows_alone(group, writer);
  *(volatile uint32_t *)go = 1;
  OK(cudaSetDevice(reader.device));
  OK(cudaStreamSynchronize(reader.stream));
  right = right && has_lost(group, reader, 0) && has_own_rows_alone(group, reader);
  OK(cudaFreeHost(go));
  return right;
}

} // namespace

int main() {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  if (device_count() == 0) {
    printf("no GPU\n");
    return 77;
  }
  flow_shape shape;
  shape.tokens = 333;
  shape.hidden = 512;
  shape.experts = 9;
  shape.blocks = {8};
  shape.zero_copy = 1;
  flow_group group(shape);
  bool right = try_late_reader(group);
  printf("%s - a late reader adds nothing of what may have changed: %s\n", right ? "ok" : "FAILED",
         group.wrong.c_str());
  return !right;
}
