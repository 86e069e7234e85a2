// The words of a rank that the host changes at any time, `ready` and the mark, are the same in all headers of an
// operation. If two members saw different ones, they could decide on different views.
#include <set>

#include "cuda/kernels/ptx.cuh"
#include "cuda/support/ranks.cuh"

namespace {

enum { SKIPPED = 77, RANKS = 4, OPS = 64, BLOCKS = 20 };

// Plays the host: changes the words as often as it can until it is to stop. View 1 is the only one, so ranks that are
// ready for none or for this one do not change views.
__global__ void change_words(cuda_control *control, const volatile uint32_t *stop) {
  enum { OFTEN = 100 };
  for (uint64_t mark = 0; !*stop;)
    for (int i = 0; i < OFTEN; i++, mark++) {
      ptx::store_relaxed(&control->mark, mark);
      ptx::store_relaxed(&control->ready, mark % 2);
    }
}

shape small() {
  shape s;
  s.ranks = RANKS;
  s.tokens = 64;
  s.hidden = 512;
  s.topk = 4;
  s.experts = 4;
  s.blocks = BLOCKS;
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

  watched() : group(small()) {
    OK(cudaHostAlloc((void **)&stop, sizeof *stop, cudaHostAllocMapped));
    *(volatile uint32_t *)stop = 0;
    OK(load((const void *)change_words)); // before anybody waits
    each([&](rank &r) {
      upload(r, make_input(r.index, 1, 0.0f, false));
      OK(cudaStreamCreateWithFlags(&changing[r.index], cudaStreamNonBlocking));
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

} // namespace

int main(void) {
  if (device_count() == 0) {
    printf("skipped: no GPU here\n");
    return SKIPPED;
  }
  watched g;
  for (uint64_t op = 0; op < OPS && g.ok; op++)
    g.operate(op);
  printf("%zu marks in %d operations\n", g.marks.size(), OPS);
  if (g.marks.size() < OPS / 2) // the words hardly changed
    g.ok = false;
  printf("%s\n", g.ok ? "ok" : "FAILED");
  return !g.ok;
}
