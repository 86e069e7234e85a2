// Checks an operation of random_throughput.c with the oracle.
#include <string.h>

#include "ep/host/support/member.h"

static struct oracle_case case_of(const struct member *m) {
  const struct drawn_op *op = &m->op;
  return (struct oracle_case){.hidden = m->group->hidden,
                              .topk = op->topk,
                              .experts_per_rank = m->group->experts,
                              .capacity = DRAWN_CAPACITY,
                              .dtype = op->dtype,
                              .sources = m->sources,
                              .num_sources = m->num_sources,
                              .combine_dtype = op->combine_dtype,
                              .row_bytes = op->row_bytes,
                              .scale_bytes = op->scale_bytes};
}

// Takes out what sources do not send to this rank because they mask it.
static void strip_masked(struct member *m) {
  for (uint32_t i = 0; i < m->num_sources; i++) {
    const struct oracle_source *source = &m->sources[i];
    if (!drawn_masks(m->group, m->number, source->rank, m->rank))
      continue;
    int64_t *topk_idx = m->made[source->rank].topk_idx;
    for (size_t j = 0; j < (size_t)source->num_tokens * m->op.topk; j++)
      if (topk_idx[j] >= 0 && topk_idx[j] / m->group->experts == m->rank)
        topk_idx[j] = -1;
  }
}

// Rows between the parts of PACKED stay as they were where zeroes were not asked for.
static bool padding_stays(struct member *m) {
  size_t bytes =
      m->op.dtype == WEFT_EP_OPAQUE ? m->op.row_bytes : m->group->hidden * (m->op.dtype == WEFT_EP_BF16 ? 2u : 1u);
  uint32_t begin = 0, alignment = m->own.alignment ? m->own.alignment : 1;
  for (uint32_t e = 0; m->own.layout == WEFT_EP_PACKED && !m->own.zero_padding && e < m->group->experts; e++) {
    uint32_t end = begin + (uint32_t)m->rows.counts[e];
    begin = (end + alignment - 1) / alignment * alignment;
    for (size_t i = end * bytes; i < begin * bytes; i++)
      if (m->received[i] != 0xFF)
        return member_fail(m, "byte %zu of x, between the parts of experts, was changed to 0x%02x", i, m->received[i]);
  }
  return true;
}

// Whether some rows of the victim came and some places stayed empty.
static void note_broken(struct member *m) {
  bool came = false, empty = false;
  for (uint32_t i = 0; m->info.num_lost > 0 && i < m->room; i++) {
    bool is_of_it = m->rows.src_rank[i] == m->group->victim;
    came |= is_of_it && m->rows.src_token[i] >= 0;
    empty |= is_of_it && m->rows.src_token[i] == -1;
  }
  m->broken[0] += came && empty;
}

// Whether the list has selections of the victim's experts; `some` not all of them.
static bool misses_victim(const struct member *m, const struct oracle_source *own, bool *some) {
  uint32_t listed = 0, selected = 0;
  for (uint32_t i = 0; i < m->result.num_missing; i++)
    listed += m->missing[i].expert / m->group->experts == m->group->victim;
  for (size_t i = 0; own && i < (size_t)own->num_tokens * m->op.topk; i++)
    selected += own->topk_idx[i] >= 0 && own->topk_idx[i] / m->group->experts == m->group->victim;
  *some = listed > 0 && listed < selected;
  return listed > 0;
}

// A source that is lost before any of its rows has come keeps its places in a kept route.
static void empty_lost(struct member *m) {
  bool kept = m->op.kind == DRAWN_KEEPS && m->group->mode == WEFT_EP_LATENCY && m->info.num_lost > 0;
  for (uint32_t i = 0; kept && i < m->num_sources; i++)
    m->sources[i].empty |= m->sources[i].rank == m->lost[0];
}

// Whether a rank takes part in the operation, as far as this one knew when it began.
static bool is_member(const struct member *m, int32_t rank) {
  for (uint32_t i = 0; i < m->num_view; i++)
    if (m->view[i] == rank)
      return true;
  return false;
}

bool member_judge_dispatch(struct member *m) {
  struct oracle_case test = case_of(m);
  bool strips = m->op.masks && m->op.kind != DRAWN_KEEPS; // there they are sources with empty places
  if (strips)
    strip_masked(m);
  empty_lost(m);
  if (m->group->mode == WEFT_EP_THROUGHPUT) {
    test.partial = m->lost;
    test.num_partial = m->info.num_lost;
  }
  struct oracle_verdict verdict = oracle_check_dispatch(&test, m->rank, &m->recv, &m->info, m->lost, m->info.num_lost);
  note_broken(m);
  if (strips)
    member_make_sources(m);
  return verdict.ok ? padding_stays(m) : member_fail(m, "%s", verdict.what);
}

// What the ranks of the selected experts sent back as their weights.
static void expect_weights(struct member *m, const struct oracle_source *source) {
  struct pattern pattern = m->group->pattern;
  pattern.topk = m->op.topk;
  for (uint32_t t = 0; t < source->num_tokens; t++)
    for (uint32_t k = 0; k < m->op.topk; k++) {
      size_t at = (size_t)t * m->op.topk + k;
      int64_t expert = source->topk_idx[at];
      m->right_weights[at] = 0;
      if (expert < 0)
        continue;
      int32_t holder = (int32_t)(expert / m->group->experts);
      if (drawn_own_draw(m->group, m->number, holder).gives_weights)
        m->right_weights[at] = pattern_row_weight(&pattern, m->number, holder, m->rank, t, k);
    }
}

bool member_judge_combine(struct member *m) {
  const struct oracle_source *own = NULL;
  for (uint32_t i = 0; i < m->num_sources; i++)
    if (m->sources[i].rank == m->rank)
      own = &m->sources[i];
  int32_t masked[DRAWN_CAPACITY];
  uint32_t num_masked = 0;
  for (uint32_t i = 0; m->op.masks && i < m->num_view; i++)
    if (drawn_masks(m->group, m->number, m->rank, m->view[i]))
      masked[num_masked++] = m->view[i];
  bool some = false, there = m->group->victim >= 0 && is_member(m, m->group->victim);
  bool misses = there && misses_victim(m, own, &some);
  if (misses && m->info.num_lost + m->result.num_lost == 0)
    return member_fail(m, "selections of rank %d are missing, and it is not lost", m->group->victim);
  if (misses && m->group->mode == WEFT_EP_LATENCY)
    masked[num_masked++] = m->group->victim; // all of it then
  m->broken[1] += misses && some;
  struct oracle_answer answer = {.unweighted = m->op.unweighted};
  for (int i = 0; i < 2; i++)
    answer.bias[i] = m->own.biased[i] ? m->bias[i] : NULL;
  if (own)
    expect_weights(m, own);
  answer.row_weights = m->right_weights;
  answer.out_weights = m->own.wants_weights ? m->out_weights : NULL;
  struct oracle_case test = case_of(m);
  test.answer = &answer;
  if (misses && m->group->mode == WEFT_EP_THROUGHPUT) {
    test.partial = &m->group->victim;
    test.num_partial = 1;
  }
  enum pattern_kind kind = PATTERN_SCALED;
  struct oracle_verdict verdict = oracle_check_combine(&test, m->rank, m->out, &m->result, pattern_expert, &kind,
                                                       masked, num_masked, m->own.renormalizes);
  return verdict.ok || member_fail(m, "%s", verdict.what);
}
