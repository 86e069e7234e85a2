// How a combine of experts' rows shares its blocks out: between those that answer and those that add the answers up,
// and the warps of each between warp groups.
#ifndef CUDA_ANSWERS_SHARE_CUH
#define CUDA_ANSWERS_SHARE_CUH

#include "cuda/throughput/sizes.h"

struct answers_share {
  uint32_t answerers; // blocks, the first ones
  flow_role answers, adds;
};

// A kind of warp groups that answer: warps of each, how many a block has, and how long they take to find a row and to
// begin with it, in units of which one warp takes 90 to move a row of hidden 7168. Fitted to what was measured
// (docs/notebook/ep-gpu.md): many warp groups of few warps are in each other's way.
struct answers_group {
  uint32_t warps, count;
  float begin;
};
constexpr answers_group answers_kinds[] = {{8, 2, 48}, {5, 3, 40}, {4, 4, 42}, {3, 5, 60}, {2, 8, 100}};
constexpr float ANSWERS_MOVE = 90;

// How long a warp group takes for an answer. `work`: its experts' rows, beside one of hidden 7168.
static inline float answer_time(const answers_group &kind, float work) {
  return kind.begin + ANSWERS_MOVE * work / (float)(kind.warps - 1);
}

// Warp groups of `blocks` blocks that add, all of them busy in each of `turns` turns where that can be.
static inline flow_role adders_of(uint32_t blocks, uint32_t turns) {
  uint32_t count = warps_of(blocks, turns);
  if (count > ANSWERS_WARPS / 2)
    count = ANSWERS_WARPS / 2;
  uint32_t warps = ANSWERS_WARPS / count < 4 ? ANSWERS_WARPS / count : 4;
  return {count * warps, warps};
}

// Those that add go round about as often as those that answer, up to a fifth more often, with nearly as many channels
// at a time: an answer that comes in a reader's later turn keeps its writer waiting. Where that leaves a choice, three
// quarters of the blocks answer, since a token has many experts' rows and one answer of each rank; two thirds among
// more ranks than two.
static inline answers_share share_answers(uint32_t blocks, uint32_t ranks, float work) {
  answers_share best = {};
  float least = 0;
  for (const answers_group &kind : answers_kinds)
    for (uint32_t turns = 1; turns <= CUDA_CHANNELS; turns++) {
      uint32_t answer = warps_of(kind.count, turns); // blocks, at least
      uint32_t add = warps_of(ANSWERS_WARPS / 2, (turns * 6 + 2) / 5);
      if (answer + add > blocks)
        continue;
      float time = (float)turns * answer_time(kind, work);
      if (least == 0 || time < least) {
        uint32_t most = blocks - add, wished = ranks > 2 ? blocks * 2 / 3 : blocks * 3 / 4;
        best.answerers = wished < answer ? answer : wished > most ? most : wished;
        best.answers = {kind.warps * kind.count, kind.warps};
        best.adds = adders_of(blocks - best.answerers, turns);
        least = time;
      }
      break; // more turns of these take longer
    }
  return best;
}

// Where all blocks answer.
static inline flow_role answers_alone(uint32_t blocks, float work) {
  flow_role best = {};
  float least = 0;
  for (const answers_group &kind : answers_kinds) {
    float time = (float)turns_of(blocks, kind.count) * answer_time(kind, work);
    if (least == 0 || time < least) {
      best = {kind.warps * kind.count, kind.warps};
      least = time;
    }
  }
  return best;
}

#endif
