// The words of a rank that the host changes at any time, `ready` and the mark, are the same in all headers of an
// operation. If two members saw different ones, they could decide on different views.
#include <set>

#include "cuda/kernels/ptx.cuh"
#include "cuda/support/ranks.cuh"

namespace {

enum { SKIPPED = 77, RANKS = 3, OPS = 64 };

// Plays the host: changes the words as often as it can until it is to stop, or the test has failed to stop it. View 1
// is the only one, so ranks that are ready for none or for this one do not change views.
__global__ void change_words(cuda_control *control, const volatile uint32_t *stop) {
  enum { OFTEN = 100 };
  const uint64_t longest_ns = 30000000000, begin = ptx::time_ns();
  for (uint64_t mark = 0; !*stop && ptx::time_ns() - begin < longest_ns;)
    for (int i = 0; i < OFTEN; i++, mark++) {
      ptx::store_relaxed(&control->mark, mark);
      ptx::store_relaxed(&control->ready, mark % 2);
    }
}

// If there are few blocks, each sends rows and metadata; else some send metadata alone, at least two of 40.
const uint32_t block_counts[] = {8, 40};

shape small(uint32_t blocks) {
  shape s;
  s.ranks = RANKS;
  s.tokens = 64;
  s.hidden = 512;
  s.topk = 4;
  s.experts = 4;
  s.blocks = blocks;
  return s;
}

struct words {
  uint32_t ready;
  uint64_t mark;
  bool operator==(const words &other) const { return ready == other.ready && mark == other.mark; }
};

struct watched : group {
  bool ok = true;
  std::set<uint64_t> marks; // of rank 0's headers
  uint32_t *stop;           // pinned
  cudaStream_t changing[RANKS];

  explicit watched(uint32_t blocks) : group(small(blocks)) {
    OK(cudaHostAlloc((void **)&stop, sizeof *stop, cudaHostAllocMapped));
    *(volatile uint32_t *)stop = 0;
    OK(load((const void *)change_words)); // before anybody waits
    each([&](rank &r) {
      upload(r, make_input(r.index, 1, 0.0f, false)); // which waits for the device
      OK(cudaStreamCreateWithFlags(&changing[r.index], cudaStreamNonBlocking));
    });
    each([&](rank &r) {
      change_words<<<1, 1, 0, changing[r.index]>>>(&r.state->control, stop);
      OK(cudaGetLastError());
    });
  }
  ~watched() {
    *(volatile uint32_t *)stop = 1;
    for (rank &r : ranks) {
      OK(cudaSetDevice(r.device));
      OK(cudaStreamSynchronize(changing[r.index]));
      OK(cudaStreamDestroy(changing[r.index]));
    }
    OK(cudaFreeHost(stop));
  }
  // The words in the header from rank `writer` to rank `reader`.
  words sent(uint32_t writer, uint32_t reader, uint64_t op) {
    const char *slot = ranks[reader].areas[writer] + sizeof(cuda_area_head) + op % CUDA_DEPTH * layout.slot;
    OK(cudaSetDevice(ranks[reader].device));
    cuda_slot_head head = fetch((const cuda_slot_head *)slot, 1)[0];
    if (head.count.flag != op + 1 || head.mark.flag != op + 1)
      complain(writer, reader, op, "no header");
    return {head.count.word[2], head.mark.word[0] | (uint64_t)head.mark.word[1] << 32};
  }
  void complain(uint32_t writer, uint32_t reader, uint64_t op, const char *what) {
    printf("  operation %llu, from rank %u to rank %u: %s\n", (unsigned long long)op, writer, reader, what);
    ok = false;
  }
  void check(uint32_t writer, uint64_t op) {
    uint32_t first = writer == 0 ? 1 : 0;
    words should = sent(writer, first, op);
    for (uint32_t reader = first + 1; reader < RANKS; reader++)
      if (reader != writer && !(sent(writer, reader, op) == should))
        complain(writer, reader, op, "other words than to the first");
    if (writer == 0)
      marks.insert(should.mark);
  }
  void operate(uint64_t op) {
    each([&](rank &r) {
      dispatch_halves(r, DEVICE_SEND);
      finish(r);
    });
    for (uint32_t writer = 0; writer < RANKS; writer++)
      check(writer, op);
    each([&](rank &r) {
      dispatch_halves(r, DEVICE_RECV);
      end(r);
      finish(r);
      if (lost(r))
        complain(r.index, r.index, op, "lost ranks");
    });
  }
};

bool try_blocks(uint32_t blocks) {
  watched g(blocks);
  for (uint64_t op = 0; op < OPS && g.ok; op++)
    g.operate(op);
  printf("%u blocks: %zu marks in %d operations\n", blocks, g.marks.size(), OPS);
  return g.ok && g.marks.size() > OPS / 2; // else the words hardly changed
}

} // namespace

int main(void) {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  if (device_count() == 0) {
    printf("skipped: no GPU here\n");
    return SKIPPED;
  }
  bool ok = true;
  for (uint32_t blocks : block_counts)
    ok &= try_blocks(blocks);
  printf("%s\n", ok ? "ok" : "FAILED");
  return !ok;
}
