// How a combine of experts' rows divides its blocks between answering and adding, and the warps of each block into warp
// groups.
#ifndef CUDA_ANSWERS_SHARE_CUH
#define CUDA_ANSWERS_SHARE_CUH

#include "cuda/throughput/sizes.h"

struct answers_share {
  uint32_t answerers; // number of answering blocks, which are the first ones
  flow_role answers, adds;
};

// A kind of answering warp groups: warps of each group, groups of a block, and the time to find a row and to begin with
// it. The unit is 1/90 of the time in which one warp moves a row of hidden 7168. Fitted to measurements
// (docs/notebook/ep-gpu.md): many warp groups of few warps slow each other down.
struct answers_group {
  uint32_t warps, count;
  float begin;
};
constexpr answers_group answers_kinds[] = {{8, 2, 48}, {5, 3, 40}, {4, 4, 42}, {3, 5, 60}, {2, 8, 100}};
constexpr float ANSWERS_MOVE = 90;

// The time of a warp group for one answer. `work`: size of its experts' rows, relative to one row of hidden 7168.
static inline float answer_time(const answers_group &kind, float work) {
  return kind.begin + ANSWERS_MOVE * work / (float)(kind.warps - 1);
}

// The warp groups of `blocks` adding blocks. If possible all of them are busy in each of `turns` turns.
static inline flow_role adders_of(uint32_t blocks, uint32_t turns) {
  uint32_t count = warps_of(blocks, turns);
  if (count > ANSWERS_WARPS / 2)
    count = ANSWERS_WARPS / 2;
  uint32_t warps = ANSWERS_WARPS / count < 4 ? ANSWERS_WARPS / count : 4;
  return {count * warps, warps};
}

// Adding blocks have about as many turns as answering blocks, at most a fifth more, and nearly as many channels at a
// time: an answer that belongs to a later turn of the reader makes its writer wait. Within these limits three quarters
// of the blocks answer, since a token has many experts' rows and one answer of each rank; two thirds with more than two
// ranks.
static inline answers_share share_answers(uint32_t blocks, uint32_t ranks, float work) {
  answers_share best = {};
  float least = 0;
  for (const answers_group &kind : answers_kinds)
    for (uint32_t turns = 1; turns <= CUDA_CHANNELS; turns++) {
      uint32_t answer = warps_of(kind.count, turns); // least number of blocks
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
      break; // more turns take longer
    }
  return best;
}

// For launches in which all blocks answer.
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
