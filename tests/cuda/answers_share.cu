// How a combine of many tokens divides its blocks and its warps into warp groups (cuda/answers/share.cuh), for all
// values that a launch may have. Kernels use this division: if a channel had no warp group, blocks would wait for each
// other for ever. The test runs on the host alone.
#include <cstdio>
#include <cstdlib>

#include "cuda/answers/share.cuh"

namespace {

enum { LEAST_BLOCKS = 2, MOST_BLOCKS = 160, BARRIERS = 16 };

// A launch, for messages.
struct asked {
  const char *what;
  uint32_t blocks, ranks, hidden, topk;
};

[[noreturn]] void die(const asked &asked, const char *why, uint32_t is) {
  fprintf(stderr, "%s, %u blocks, %u ranks, hidden %u, top-%u: %s (%u)\n", asked.what, asked.blocks, asked.ranks,
          asked.hidden, asked.topk, why, is);
  exit(1);
}

// As struct warp_group (answers/warp_group.cuh) and run_channels() do it: each channel has one warp group, of two warps
// at least, and the warp groups of a block have barriers and memory of their own.
void check_role(const asked &asked, const flow_role &role, uint32_t blocks) {
  if (blocks == 0)
    die(asked, "no block is left", blocks);
  if (role.group < 2 || role.warps < role.group || role.warps > ANSWERS_WARPS)
    die(asked, "these are no warp groups", role.group);
  static bool checked[MOST_BLOCKS + 1][ANSWERS_WARPS + 1][ANSWERS_WARPS + 1];
  if (checked[blocks][role.warps][role.group])
    return;
  checked[blocks][role.warps][role.group] = true;
  uint32_t groups = role.warps / role.group, step = groups * blocks;
  bool taken[BARRIERS] = {true}; // 0 is the block's
  for (uint32_t local = 0; local < groups; local++) {
    uint32_t nth = local * role.group / 2;
    if (nth >= ANSWERS_WARPS / 2 || 1 + nth >= BARRIERS || taken[1 + nth])
      die(asked, "a warp group has no barrier, or no memory", local);
    taken[1 + nth] = true;
  }
  uint8_t served[CUDA_CHANNELS] = {};
  for (uint32_t block = 0; block < blocks; block++)
    for (uint32_t local = 0; local < groups; local++)
      for (uint32_t c = local * blocks + block; c < CUDA_CHANNELS; c += step)
        served[c]++;
  for (uint32_t c = 0; c < CUDA_CHANNELS; c++)
    if (served[c] != 1)
      die(asked, "a channel has no warp group, or several", c);
}

void check(uint32_t blocks, uint32_t ranks, uint32_t hidden, uint32_t topk) {
  // As cuda_launch_answers() computes them.
  float work = (float)hidden / 7168.0f, rows = topk > ranks ? (float)topk / (float)ranks : 1;
  asked asked = {"both halves", blocks, ranks, hidden, topk};
  if (blocks >= LEAST_BLOCKS) {
    answers_share share = share_answers(blocks, ranks, rows * work);
    if (share.answerers == 0 || share.answerers >= blocks)
      die(asked, "blocks that answer", share.answerers);
    check_role(asked, share.answers, share.answerers);
    check_role(asked, share.adds, blocks - share.answerers);
  }
  asked.what = "who answers alone";
  check_role(asked, answers_alone(blocks, rows * work), blocks);
  asked.what = "who adds alone, or answers by rank";
  for (float each : {1.0f, 1.5f})
    check_role(asked, flow_role_of(blocks, ANSWERS_WARPS, each * work), blocks);
}

} // namespace

int main() {
  for (uint32_t blocks = 1; blocks <= MOST_BLOCKS; blocks++)
    for (uint32_t ranks = 1; ranks <= 8; ranks++)
      for (uint32_t hidden = CUDA_BLOCK; hidden <= EP_MAX_HIDDEN; hidden += CUDA_BLOCK)
        for (uint32_t topk : {1, 2, 4, 8, 9, 16})
          check(blocks, ranks, hidden, topk);
  return 0;
}
