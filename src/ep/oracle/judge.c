// Compares results with those of the oracle, and reports where they first differ.
#include "ep/oracle/judge.h"

#include <stdarg.h>
#include <stdio.h>

bool oracle_wrong(struct oracle_verdict *verdict, const char *format, ...) {
  verdict->ok = false;
  va_list args;
  va_start(args, format);
  vsnprintf(verdict->what, sizeof verdict->what, format, args);
  va_end(args);
  return false;
}

static bool source_valid(const struct oracle_case *test, uint32_t i, struct oracle_verdict *verdict) {
  const struct oracle_source *source = &test->sources[i];
  if (source->rank < 0 || (uint32_t)source->rank >= test->capacity)
    return oracle_wrong(verdict, "case: source %u is rank %d, outside of the capacity %u", i, source->rank,
                        test->capacity);
  if (i > 0 && source->rank <= source[-1].rank)
    return oracle_wrong(verdict, "case: source rank %d follows rank %d: sources must ascend", source->rank,
                        source[-1].rank);
  bool opaque = test->dtype == WEFT_EP_OPAQUE;
  if (source->num_tokens > 0 && ((!opaque && !source->x && !test->make_row) || !source->topk_idx))
    return oracle_wrong(verdict, "case: source rank %d has tokens, but no x or topk_idx", source->rank);
  if (source->num_tokens > 0 && opaque && (!source->payload || (test->scale_bytes > 0 && !source->payload_scales)))
    return oracle_wrong(verdict, "case: source rank %d has opaque tokens, but no payload or scales", source->rank);
  return true;
}

bool oracle_case_valid(const struct oracle_case *test, struct oracle_verdict *verdict) {
  if (test->hidden == 0 || test->hidden % WEFT_EP_BLOCK != 0 || test->hidden > EP_MAX_HIDDEN)
    return oracle_wrong(verdict, "case: hidden is %u, not a multiple of %d up to %d", test->hidden, WEFT_EP_BLOCK,
                        EP_MAX_HIDDEN);
  if (test->topk == 0 || test->topk > EP_MAX_TOPK)
    return oracle_wrong(verdict, "case: topk is %u, not 1 to %d", test->topk, EP_MAX_TOPK);
  if (test->experts_per_rank == 0 || test->experts_per_rank > EP_MAX_EXPERTS)
    return oracle_wrong(verdict, "case: experts_per_rank is %u, not 1 to %d", test->experts_per_rank, EP_MAX_EXPERTS);
  if (test->capacity == 0 || test->capacity > EP_MAX_CAPACITY)
    return oracle_wrong(verdict, "case: capacity is %u, not 1 to %d", test->capacity, EP_MAX_CAPACITY);
  if (test->dtype == WEFT_EP_OPAQUE && (test->row_bytes == 0 || test->scale_bytes % 4 != 0))
    return oracle_wrong(verdict, "case: opaque rows of %u bytes and %u of scales", test->row_bytes, test->scale_bytes);
  for (uint32_t i = 0; i < test->num_sources; i++)
    if (!source_valid(test, i, verdict))
      return false;
  return true;
}

const struct oracle_source *oracle_source_of(const struct oracle_case *test, int32_t rank) {
  for (uint32_t i = 0; i < test->num_sources; i++)
    if (test->sources[i].rank == rank)
      return &test->sources[i];
  return NULL;
}

const uint16_t *oracle_row(const struct oracle_case *test, const struct oracle_source *source, uint32_t token,
                           uint16_t *room) {
  if (source->x)
    return source->x + (size_t)token * test->hidden;
  test->make_row(test->row_arg, source->rank, token, room);
  return room;
}

bool oracle_listed(int32_t rank, const int32_t *ranks, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (ranks[i] == rank)
      return true;
  return false;
}
