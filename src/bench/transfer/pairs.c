// Which initiator is paired with which target, for each scheme.
#include "bench/transfer/pairs.h"

#include <stdlib.h>

#include "base/fail.h"

static int check_tp(uint32_t initiators, uint32_t targets) {
  uint32_t more = initiators > targets ? initiators : targets, fewer = initiators > targets ? targets : initiators;
  if (more % fewer == 0)
    return 0;
  return fail(WEFT_ERR_INVALID,
              "scheme tp with %u initiators and %u targets: one number has to be a multiple of the other; the nearest "
              "to %u are %u and %u",
              initiators, targets, more, more / fewer * fewer, (more / fewer + 1) * fewer);
}

int transfer_pairs_check(const struct transfer_config *config) {
  uint32_t initiators = config->num_initiator_dev, targets = config->num_target_dev;
  switch (config->scheme) {
  case TRANSFER_PAIRWISE:
    if (initiators != targets)
      return fail(WEFT_ERR_INVALID,
                  "scheme pairwise wants as many targets as initiators, and --num_initiator_dev %u with "
                  "--num_target_dev %u makes %u workers: want %u and %u, or scheme manytoone, onetomany or tp",
                  initiators, targets, initiators + targets, initiators, initiators);
    return 0;
  case TRANSFER_MANYTOONE:
    if (targets != 1)
      return fail(WEFT_ERR_INVALID, "scheme manytoone has one target, but --num_target_dev is %u: want 1", targets);
    return 0;
  case TRANSFER_ONETOMANY:
    if (initiators != 1)
      return fail(WEFT_ERR_INVALID, "scheme onetomany has one initiator, but --num_initiator_dev is %u: want 1",
                  initiators);
    return 0;
  default:
    return check_tp(initiators, targets);
  }
}

static struct transfer_end end_of(const struct transfer_plan *plan, bool target, uint32_t number) {
  if (plan->config.mode == TRANSFER_MG)
    return (struct transfer_end){.rank = target, .buffer = number};
  return (struct transfer_end){.rank = target ? plan->config.num_initiator_dev + number : number};
}

// How many pairs before `count` have the same end.
static uint32_t area_of(const struct transfer_pairs *pairs, uint32_t count, bool target) {
  uint32_t area = 0;
  for (uint32_t i = 0; i < count; i++) {
    const struct transfer_end *a = target ? &pairs->list[i].target : &pairs->list[i].initiator;
    const struct transfer_end *b = target ? &pairs->list[count].target : &pairs->list[count].initiator;
    area += a->rank == b->rank && a->buffer == b->buffer;
  }
  return area;
}

int transfer_pairs_make(struct transfer_pairs *pairs, const struct transfer_plan *plan) {
  uint32_t initiators = plan->config.num_initiator_dev, targets = plan->config.num_target_dev;
  bool storage = plan->storage != TRANSFER_NONE;
  uint32_t count = storage ? 1 : initiators > targets ? initiators : targets;
  *pairs = (struct transfer_pairs){.list = calloc(count, sizeof *pairs->list), .count = count};
  if (!pairs->list)
    return fail(WEFT_ERR_NOMEM, "no memory for %u pairs", count);
  for (uint32_t i = 0; i < count && !storage; i++) {
    struct transfer_pair *pair = &pairs->list[i];
    pair->initiator = end_of(plan, false, i * initiators / count);
    pair->target = end_of(plan, true, i * targets / count);
    pair->initiator_area = area_of(pairs, i, false);
    pair->target_area = area_of(pairs, i, true);
  }
  return 0;
}

void transfer_pairs_free(struct transfer_pairs *pairs) {
  free(pairs->list);
  *pairs = (struct transfer_pairs){0};
}

uint32_t transfer_pairs_buffers(const struct transfer_plan *plan, uint32_t rank) {
  if (plan->storage != TRANSFER_NONE || plan->config.mode == TRANSFER_SG)
    return 1;
  return rank == 0 ? plan->config.num_initiator_dev : plan->config.num_target_dev;
}

uint32_t transfer_pairs_areas(const struct transfer_pairs *pairs, uint32_t rank) {
  uint32_t most = 1;
  for (uint32_t i = 0; i < pairs->count; i++) {
    const struct transfer_pair *pair = &pairs->list[i];
    if (pair->initiator.rank == rank && pair->initiator_area + 1 > most)
      most = pair->initiator_area + 1;
    if (pair->target.rank == rank && pair->target_area + 1 > most)
      most = pair->target_area + 1;
  }
  return most;
}

bool transfer_pairs_initiates(const struct transfer_pairs *pairs, uint32_t rank) {
  for (uint32_t i = 0; i < pairs->count; i++)
    if (pairs->list[i].initiator.rank == rank)
      return true;
  return false;
}

uint32_t transfer_pairs_initiators(const struct transfer_pairs *pairs, uint32_t size) {
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < size; rank++)
    count += transfer_pairs_initiates(pairs, rank);
  return count;
}
