// Silent ranks and waiting ranks (cuda/kernels/wait.cuh): ranks share a device, and the headers of one rank reach only
// some of the others. A header that is erased before its reader looks stands for a header that was cut off by the death
// of its sender or of its host.
#include "cuda/kernels/ptx.cuh"
#include "cuda/support/ranks.cuh"

namespace {

enum { SKIPPED = 77, LIMIT_MS = 40, BLOCKS = 20 };

const uint64_t MS = 1000000;

__global__ void spin(uint64_t ns) {
  for (uint64_t begin = ptx::time_ns(); ptx::time_ns() - begin < ns;)
    __nanosleep(1000);
}

__global__ void write_waiting(cuda_area_head *head, uint64_t ns) {
  for (uint64_t begin = ptx::time_ns(), now; (now = ptx::time_ns()) - begin < ns;) {
    ptx::store_relaxed(&head->waiting, now);
    __nanosleep(100000);
  }
}

// Holds up what comes after it in the stream.
void be_late(cudaStream_t stream, double limits) {
  spin<<<1, 1, 0, stream>>>((uint64_t)(limits * LIMIT_MS * MS));
  OK(cudaGetLastError());
}

shape small(uint32_t ranks) {
  shape s;
  s.ranks = ranks;
  s.devices = 1;
  s.tokens = 16;
  s.hidden = 512;
  s.topk = 4;
  s.experts = 4;
  s.blocks = BLOCKS;
  return s;
}

struct ring : group {
  bool ok = true;

  explicit ring(uint32_t ranks) : group(small(ranks)) {
    OK(load((const void *)spin)); // before anybody waits
    OK(load((const void *)write_waiting));
    each([&](rank &r) {
      set_timeout(r, LIMIT_MS * MS);
      upload(r, make_input(r.index, 1, 0.0f, false));
    });
  }
  void send_all() {
    each([&](rank &r) {
      dispatch_halves(r, DEVICE_SEND);
      finish(r);
    });
  }
  // The first operation's header does not come.
  void wipe_header(uint32_t reader, uint32_t writer) {
    OK(cudaMemset(ranks[reader].areas[writer] + sizeof(cuda_area_head), 0, sizeof(cuda_slot_head)));
    OK(cudaDeviceSynchronize());
  }
  void expect_lost(uint32_t index, uint64_t want) {
    uint64_t has = lost(ranks[index]);
    if (has == want)
      return;
    printf("  rank %u has lost members %llx, not %llx\n", index, (unsigned long long)has, (unsigned long long)want);
    ok = false;
  }
  // In time limits.
  void expect_time(const char *what, double took, double least, double most) {
    printf("  %s: %.2f limits\n", what, took);
    if (took >= least && took <= most)
      return;
    printf("  want %.2f to %.2f\n", least, most);
    ok = false;
  }
};

// How long a stream took for what stands between its two calls.
struct stopwatch {
  cudaStream_t stream;
  cudaEvent_t begin, end;

  explicit stopwatch(cudaStream_t stream) : stream(stream) {
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    OK(cudaEventRecord(begin, stream));
  }
  void stop() { OK(cudaEventRecord(end, stream)); }
  double limits() const {
    float ms;
    OK(cudaEventElapsedTime(&ms, begin, end));
    return ms / LIMIT_MS;
  }
};

// Rank 2 is heard by rank 0 and dies. Rank 1 waits for it, half a limit later, while rank 0 waits for rank 1's answer.
// The two that live keep each other.
bool a_wait_is_no_silence() {
  enum { DEAD = 1 << 2 };
  printf("a rank is heard by one of two, and dies\n");
  ring g(3);
  g.send_all();
  g.wipe_header(1, 2);
  double took = 0;
  g.each([&](rank &r) {
    if (r.index == 2)
      return;
    if (r.index == 1)
      be_late(r.stream, 0.5);
    stopwatch watch(r.stream);
    g.dispatch_halves(r, DEVICE_RECV);
    watch.stop();
    g.run_experts(r);
    g.combine(r);
    g.finish(r);
    if (r.index == 1)
      took = watch.limits();
    for (int i = 0; i < 2; i++) { // and go on
      g.dispatch(r);
      g.run_experts(r);
      g.combine(r);
    }
    g.finish(r);
  });
  g.expect_time("the dispatch that it did not reach", took, 1, 1.5); // the dead says nothing: no more time
  for (uint32_t index : {0u, 1u}) {
    g.expect_lost(index, DEAD);
    auto record = g.record(g.ranks[index], 0);
    if (record.lost != (index == 1 ? DEAD : 0) || record.combine_lost != DEAD) {
      printf("  rank %u: the first operation has lost %llx and %llx\n", index, (unsigned long long)record.lost,
             (unsigned long long)record.combine_lost);
      g.ok = false;
    }
  }
  return g.ok;
}

// Each waits for the other's header.
bool a_rank_that_waits_for_us_gets_nothing() {
  printf("two wait for each other\n");
  ring g(2);
  g.send_all();
  g.wipe_header(0, 1);
  g.wipe_header(1, 0);
  double took[2];
  g.each([&](rank &r) {
    stopwatch watch(r.stream);
    g.dispatch_halves(r, DEVICE_RECV);
    watch.stop();
    g.finish(r);
    took[r.index] = watch.limits();
  });
  for (uint32_t index : {0u, 1u}) {
    g.expect_lost(index, 2 >> index);
    g.expect_time("the wait for each other", took[index], 1, 1.9);
  }
  return g.ok;
}

// Rank 1 says for longer than any patience that it waits, and never answers rank 0. `known`: after two limits, rank 0's
// host hears that it is dead.
bool a_wait_ends(bool known) {
  enum { WAITING = 1 << 1 };
  printf("a rank waits for ever%s\n", known ? ", and is known to be dead" : "");
  ring g(2);
  g.send_all();
  rank &r = g.ranks[0];
  cudaStream_t peer, host;
  uint64_t *gone;
  OK(cudaStreamCreateWithFlags(&peer, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&host, cudaStreamNonBlocking));
  OK(cudaMallocHost(&gone, sizeof *gone));
  *gone = WAITING;
  g.dispatch_halves(r, DEVICE_RECV);
  g.run_experts(r);
  g.finish(r);
  write_waiting<<<1, 1, 0, peer>>>((cuda_area_head *)r.areas[1], (DEVICE_EXTENSIONS + 3) * LIMIT_MS * MS);
  OK(cudaGetLastError());
  stopwatch watch(r.stream);
  g.combine(r);
  watch.stop();
  if (known) {
    be_late(host, 2);
    OK(cudaMemcpyAsync(&r.state->control.gone, gone, sizeof *gone, cudaMemcpyHostToDevice, host));
  }
  g.finish(r);
  OK(cudaDeviceSynchronize());           // what the others do would not end before the memory goes
  g.expect_lost(0, known ? 0 : WAITING); // what the host knows, kernels need not tell it
  if (known)
    g.expect_time("the wait for it", watch.limits(), 1.9, 2.5);
  else
    g.expect_time("the wait for it", watch.limits(), DEVICE_EXTENSIONS + 1, DEVICE_EXTENSIONS + 1.5);
  return g.ok;
}

} // namespace

int main(void) {
  if (device_count() == 0) {
    printf("skipped: no GPU here\n");
    return SKIPPED;
  }
  int failed = 0;
  failed += !a_wait_is_no_silence();
  failed += !a_rank_that_waits_for_us_gets_nothing();
  failed += !a_wait_ends(false);
  failed += !a_wait_ends(true);
  printf("%d wrong\n", failed);
  return failed != 0;
}
