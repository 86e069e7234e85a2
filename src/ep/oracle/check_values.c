// The judge of dispatch: the values of a row, and its scales.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ep/oracle/walk.h"

bool walk_wrong(const struct walk *walk, const struct row *row, const char *format, ...) {
  char detail[160], part[32] = "", what[64];
  va_list args;
  va_start(args, format);
  vsnprintf(detail, sizeof detail, format, args);
  va_end(args);
  if (walk->recv->layout != WEFT_EP_RANK_MAJOR)
    snprintf(part, sizeof part, "local expert %u, ", row->part);
  if (!row->source)
    snprintf(what, sizeof what, "between the parts");
  else if (row->token < 0)
    snprintf(what, sizeof what, "of rank %d, not arrived", row->source->rank);
  else
    snprintf(what, sizeof what, "token %u of rank %d", (uint32_t)row->token, row->source->rank);
  return oracle_wrong(walk->verdict, "dispatch: %srow %u (%s): %s", part, row->index, what, detail);
}

static size_t value_bytes(const struct oracle_case *test) {
  if (test->dtype == WEFT_EP_OPAQUE)
    return test->row_bytes;
  return test->hidden * (test->dtype == WEFT_EP_BF16 ? sizeof(uint16_t) : sizeof(uint8_t));
}

// Number of words of a row's scales.
static size_t scale_words(const struct oracle_case *test) {
  size_t blocks = test->hidden / WEFT_EP_BLOCK;
  switch (test->dtype) {
  case WEFT_EP_OPAQUE:
    return test->scale_bytes / sizeof(uint32_t);
  case WEFT_EP_FP8_UE8M0:
    return (blocks + 3) / 4;
  case WEFT_EP_FP8:
  case WEFT_EP_FP8_POW2:
    return blocks;
  default:
    return 0;
  }
}

static const uint8_t *values_at(const struct walk *walk, const struct row *row) {
  return (const uint8_t *)walk->recv->x + walk_place(walk, row) * value_bytes(walk->test);
}

// The place of word `block` of a row's scales.
static const uint8_t *scale_at(const struct walk *walk, const struct row *row, size_t block) {
  const struct weft_ep_recv_args *recv = walk->recv;
  size_t words = scale_words(walk->test);
  uint64_t each = recv->scale_row_stride ? recv->scale_row_stride : words;
  uint64_t next = recv->scale_block_stride ? recv->scale_block_stride : 1;
  uint64_t part = recv->scale_expert_stride ? recv->scale_expert_stride : recv->rows * words;
  bool fixed = recv->layout != WEFT_EP_RANK_MAJOR && recv->layout != WEFT_EP_PACKED;
  uint64_t at = fixed ? row->part * part + row->index * each : walk_place(walk, row) * each;
  return (const uint8_t *)recv->scales + sizeof(uint32_t) * (at + block * next);
}

static bool check_bf16(const struct walk *walk, const struct row *row) {
  size_t hidden = walk->test->hidden, i = 0;
  const uint16_t *x = (const uint16_t *)walk->recv->x + walk_place(walk, row) * hidden;
  const uint16_t *right = walk->x;
  if (memcmp(x, right, hidden * sizeof *x) == 0)
    return true;
  while (x[i] == right[i])
    i++;
  return walk_wrong(walk, row, "x[%zu] is 0x%04x (%g), should be 0x%04x (%g)", i, x[i], oracle_bf16(x[i]), right[i],
                    oracle_bf16(right[i]));
}

// Checks scales that are bytes: those of ue8m0, and opaque ones.
static bool check_scale_bytes(const struct walk *walk, const struct row *row, const uint8_t *right, size_t size) {
  for (size_t b = 0; b < size; b++) {
    uint8_t is = scale_at(walk, row, b / 4)[b % 4];
    if (is != right[b])
      return walk_wrong(walk, row, "scales[%zu], byte %zu is 0x%02x, should be 0x%02x", b / 4, b % 4, is, right[b]);
  }
  return true;
}

static bool check_scales(const struct walk *walk, const struct row *row) {
  if (walk->test->dtype == WEFT_EP_FP8_UE8M0) {
    uint8_t right[EP_MAX_HIDDEN / WEFT_EP_BLOCK + 3];
    size_t size = oracle_pack_scales(right, walk->scales, walk->test->hidden);
    return check_scale_bytes(walk, row, right, size);
  }
  for (size_t b = 0; b < walk->test->hidden / WEFT_EP_BLOCK; b++) {
    float is;
    memcpy(&is, scale_at(walk, row, b), sizeof is);
    if (memcmp(&is, &walk->scales[b], sizeof is) != 0)
      return walk_wrong(walk, row, "scales[%zu] is %a, should be %a", b, (double)is, (double)walk->scales[b]);
  }
  return true;
}

static bool check_fp8(const struct walk *walk, const struct row *row) {
  if (!check_scales(walk, row))
    return false;
  size_t i = 0;
  const uint8_t *q = values_at(walk, row);
  if (memcmp(q, walk->q, walk->test->hidden) == 0)
    return true;
  while (q[i] == walk->q[i])
    i++;
  return walk_wrong(walk, row, "x[%zu] is 0x%02x (%g), should be 0x%02x (%g)", i, q[i], oracle_e4m3(q[i]), walk->q[i],
                    oracle_e4m3(walk->q[i]));
}

static bool check_opaque(const struct walk *walk, const struct row *row) {
  size_t bytes = walk->test->row_bytes, scales = walk->test->scale_bytes, i = 0;
  if (scales > 0 && !check_scale_bytes(walk, row, row->source->payload_scales + (size_t)row->token * scales, scales))
    return false;
  const uint8_t *is = values_at(walk, row), *right = row->source->payload + (size_t)row->token * bytes;
  if (memcmp(is, right, bytes) == 0)
    return true;
  while (is[i] == right[i])
    i++;
  return walk_wrong(walk, row, "byte %zu of x is 0x%02x, should be 0x%02x", i, is[i], right[i]);
}

void walk_take(struct walk *walk, const struct oracle_source *source, uint32_t token) {
  const struct oracle_case *test = walk->test;
  if (test->dtype == WEFT_EP_OPAQUE)
    return;
  walk->x = oracle_row(test, source, token, walk->made);
  if (test->dtype != WEFT_EP_BF16)
    oracle_cast(walk->q, walk->scales, walk->x, test->hidden, test->dtype);
}

bool walk_check_values(const struct walk *walk, const struct row *row) {
  switch (walk->test->dtype) {
  case WEFT_EP_BF16:
    return check_bf16(walk, row);
  case WEFT_EP_OPAQUE:
    return check_opaque(walk, row);
  default:
    return check_fp8(walk, row);
  }
}

bool walk_check_zeros(const struct walk *walk, const struct row *row) {
  const uint8_t *values = values_at(walk, row);
  for (size_t i = 0, size = value_bytes(walk->test); i < size; i++)
    if (values[i] != 0)
      return walk_wrong(walk, row, "byte %zu of x is 0x%02x, should be 0", i, values[i]);
  for (size_t b = 0, words = scale_words(walk->test); b < words; b++) {
    uint32_t word;
    memcpy(&word, scale_at(walk, row, b), sizeof word);
    if (word != 0)
      return walk_wrong(walk, row, "scales[%zu] is 0x%08x, should be 0", b, word);
  }
  return true;
}
