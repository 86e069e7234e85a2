// The buffers of the traffic: those that operations use, and the host's copies of them.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "run/traffic/internal.h"

enum { POISON = 0xA5, POISON_NAN = 0xFF, POISON_MARGIN = 8 };

static const struct buffer_home host;

static size_t row_bytes(const struct run_config *config) {
  return (size_t)config->hidden * (config->dtype == WEFT_EP_BF16 ? 2 : 1);
}

static size_t scale_bytes(const struct run_config *config) {
  size_t blocks = config->hidden / WEFT_EP_BLOCK;
  return config->dtype == WEFT_EP_FP8_UE8M0 ? (blocks + 3) / 4 * sizeof(uint32_t) : blocks * sizeof(float);
}

static size_t y_bytes(const struct run_config *config) {
  return (size_t)config->hidden * sizeof(uint16_t);
}

// The byte that fills held rows.
static uint8_t held_byte(const struct traffic *t) {
  return t->config->layout == WEFT_EP_RANK_MAJOR ? 0 : TRAFFIC_HELD_BYTE;
}

// Lists are allocated by calloc(), so that tools can find overruns.
static int open_pair(struct traffic *t, int index, size_t size, bool is_large) {
  struct traffic_pair *pair = &t->pairs[index];
  int err = 0;
  *pair = (struct traffic_pair){.size = size, .is_large = is_large};
  if (is_large)
    err = buffer_allocate(&host, size, &pair->host);
  else if (!(pair->host = calloc(1, size ? size : 1)))
    err = fail(WEFT_ERR_NOMEM, "no memory for a buffer of %zu bytes", size);
  if (!err && t->home->api)
    err = buffer_allocate(t->home, size, &pair->place);
  else if (!err)
    pair->place = pair->host;
  return err;
}

// Opens the buffer of the experts' answers, in memory that peers can read if the group has enough of it.
static int open_answers(struct traffic *t, size_t size) {
  uint64_t room = 0;
  void *memory = t->shares_pool ? NULL : weft_ep_get_zero_copy_memory(t->ep, &room);
  if (!t->home->api || !memory || size > room)
    return open_pair(t, PAIR_Y, size, true);
  t->pairs[PAIR_Y] = (struct traffic_pair){.size = size, .is_large = true, .is_lent = true, .place = memory};
  return buffer_allocate(&host, size, &t->pairs[PAIR_Y].host);
}

static void close_pair(struct traffic *t, struct traffic_pair *pair) {
  if (t->home->api && !pair->is_lent)
    buffer_release(t->home, pair->place, pair->size);
  if (pair->is_large)
    buffer_release(&host, pair->host, pair->size);
  else
    free(pair->host);
}

static int open_pairs(struct traffic *t) {
  const struct run_config *config = t->config;
  bool rank_major = config->layout == WEFT_EP_RANK_MAJOR, packed = config->layout == WEFT_EP_PACKED;
  bool cast = config->dtype != WEFT_EP_BF16;
  size_t all = (size_t)t->groups * t->rows, ranges = t->capacity * sizeof(int64_t);
  size_t weighed = rank_major ? all * config->topk : packed ? all : 0; // weights that come with the rows
  int err = open_pair(t, PAIR_X, all * row_bytes(config), true);
  if (!err && cast)
    err = open_pair(t, PAIR_SCALES, all * scale_bytes(config), true);
  if (!err)
    err = open_answers(t, all * y_bytes(config));
  if (!err)
    err = open_pair(t, PAIR_COUNTS, config->experts_per_rank * sizeof(int32_t), false);
  if (!err)
    err = open_pair(t, PAIR_SRC_RANK, all * sizeof(int32_t), false);
  if (!err)
    err = open_pair(t, PAIR_SRC_TOKEN, all * sizeof(int32_t), false);
  if (!err)
    err = open_pair(t, PAIR_RANGE, (rank_major ? 1 : config->experts_per_rank) * ranges, false);
  if (!err && rank_major)
    err = open_pair(t, PAIR_LOCAL_EXPERT, all * config->topk * sizeof(int32_t), false);
  if (!err && weighed)
    err = open_pair(t, PAIR_WEIGHTS, weighed * sizeof(float), false);
  if (!err && packed)
    err = open_pair(t, PAIR_SLOT, all * config->topk * sizeof(int32_t), false);
  if (!err && packed)
    err = open_pair(t, PAIR_EXPERT_END, config->experts_per_rank * sizeof(int32_t), false);
  if (!err)
    err = open_pair(t, PAIR_OUT, (size_t)(config->num_tokens + 1) * y_bytes(config), false);
  for (int i = 0; i < 2 && t->has_forms && !err; i++)
    err = open_pair(t, PAIR_BIAS + i, (size_t)(config->num_tokens + 1) * y_bytes(config), false);
  if (!err && t->has_forms && weighed)
    err = open_pair(t, PAIR_ROW_WEIGHTS, weighed * sizeof(float), false);
  if (!err && t->has_forms && weighed)
    err = open_pair(t, PAIR_OUT_WEIGHTS, (size_t)(config->num_tokens + 1) * config->topk * sizeof(float), false);
  return err;
}

static struct weft_ep_recv_args receive(const struct traffic *t, bool on_host) {
  void *at[NUM_PAIRS];
  for (int i = 0; i < NUM_PAIRS; i++)
    at[i] = on_host ? t->pairs[i].host : t->pairs[i].place;
  return (struct weft_ep_recv_args){.size = sizeof(struct weft_ep_recv_args),
                                    .layout = t->config->layout,
                                    .rows = t->rows,
                                    .x = at[PAIR_X],
                                    .scales = at[PAIR_SCALES],
                                    .counts = at[PAIR_COUNTS],
                                    .src_rank = at[PAIR_SRC_RANK],
                                    .src_token = at[PAIR_SRC_TOKEN],
                                    .range = at[PAIR_RANGE],
                                    .local_expert = at[PAIR_LOCAL_EXPERT],
                                    .weights = at[PAIR_WEIGHTS],
                                    .slot = at[PAIR_SLOT],
                                    .expert_end = at[PAIR_EXPERT_END],
                                    .alignment = t->config->layout == WEFT_EP_PACKED ? t->config->alignment : 0,
                                    .stream = t->home->stream};
}

static size_t num_selections(const struct traffic *t) {
  return (size_t)(t->config->num_tokens ? t->config->num_tokens : 1) * t->config->topk;
}

// Opens the buffers from which operations read the routing.
static int open_routing(struct traffic *t) {
  if (!t->home->api) {
    t->topk = t->input.topk;
    t->weights = t->input.weights;
    return 0;
  }
  int err = buffer_allocate(t->home, num_selections(t) * sizeof *t->topk, &t->topk);
  return err ? err : buffer_allocate(t->home, num_selections(t) * sizeof *t->weights, &t->weights);
}

static void close_routing(struct traffic *t) {
  if (!t->home->api)
    return;
  buffer_release(t->home, t->topk, num_selections(t) * sizeof *t->topk);
  buffer_release(t->home, t->weights, num_selections(t) * sizeof *t->weights);
}

// In the packed layout a token has one row for each of its experts on this rank, and each expert's part begins at a
// multiple of the alignment.
static uint32_t rows_of(const struct run_config *config, uint32_t max_ranks) {
  uint64_t tokens = (uint64_t)(config->num_tokens ? config->num_tokens : 1) * max_ranks;
  uint32_t most = config->topk < config->experts_per_rank ? config->topk : config->experts_per_rank;
  if (config->layout == WEFT_EP_PACKED)
    tokens = tokens * most + (uint64_t)config->experts_per_rank * (config->alignment ? config->alignment : 1);
  return tokens < INT32_MAX ? (uint32_t)tokens : INT32_MAX;
}

uint64_t traffic_zero_copy_bytes(const struct run_config *config, uint32_t max_ranks) {
  bool may = config->mode == WEFT_EP_THROUGHPUT && config->memory == WEFT_EP_MEMORY_CUDA &&
             config->layout == WEFT_EP_RANK_MAJOR;
  return may ? rows_of(config, max_ranks) * (uint64_t)y_bytes(config) : 0;
}

int traffic_memory_open(struct traffic *t) {
  const struct run_config *config = t->config;
  size_t tokens = config->num_tokens ? config->num_tokens : 1;
  t->groups = config->layout == WEFT_EP_PER_EXPERT ? config->experts_per_rank : 1;
  t->rows = rows_of(config, t->max_ranks);
  int err = traffic_input_open(&t->input, config, false);
  if (!err)
    err = open_pairs(t);
  if (!err)
    err = open_routing(t);
  if (!err && !t->shares_pool)
    err = traffic_pool_open(t);
  t->recv = receive(t, true);
  t->place = receive(t, false);
  t->y = t->pairs[PAIR_Y].host;
  t->out = t->pairs[PAIR_OUT].host;
  t->row = malloc((size_t)(config->topk + 1) * y_bytes(config));
  t->narrow = malloc(tokens * WEFT_EP_BLOCK * sizeof *t->narrow);
  t->missing = malloc((tokens * config->topk + 1) * sizeof *t->missing);
  t->ranks = malloc(t->capacity * sizeof *t->ranks);
  t->lost = malloc(t->capacity * sizeof *t->lost);
  t->dirty = calloc(t->groups, sizeof *t->dirty);
  t->unheld = calloc(t->groups, sizeof *t->unheld);
  for (uint32_t g = 0; t->unheld && g < t->groups; g++)
    t->unheld[g] = t->rows;
  if (!err && !(t->row && t->narrow && t->missing && t->ranks && t->lost && t->dirty && t->unheld))
    err = fail(WEFT_ERR_NOMEM, "no memory for the traffic");
  return err;
}

void traffic_memory_close(struct traffic *t) {
  close_routing(t);
  if (!t->shares_pool)
    traffic_pool_close(t);
  for (int i = 0; i < NUM_PAIRS; i++)
    close_pair(t, &t->pairs[i]);
  for (uint32_t i = 0; t->others && !t->shares_pool && i < t->max_ranks; i++)
    traffic_input_close(&t->others[i], true);
  if (!t->shares_pool)
    free(t->others);
  traffic_input_close(&t->input, false);
  free(t->row);
  free(t->narrow);
  free(t->missing);
  free(t->ranks);
  free(t->lost);
  free(t->dirty);
  free(t->unheld);
}

// Fills `rows` rows of one part of a large buffer with a byte.
static int fill_rows(struct traffic *t, int index, uint32_t group, uint32_t rows, size_t bytes, uint8_t byte) {
  rows = rows < t->rows ? rows : t->rows;
  return buffer_fill(t->home, (char *)t->pairs[index].place + (size_t)group * t->rows * bytes, byte, rows * bytes);
}

// Overwrites rows that contained data with poison. Rows that no operation has used still contain zeroes, which no judge
// accepts as data.
int traffic_poison(struct traffic *t) {
  const struct run_config *config = t->config;
  int err = 0;
  for (uint32_t g = 0; g < t->groups && !err; g++) {
    uint32_t rows = t->dirty[g] + POISON_MARGIN;
    err = fill_rows(t, PAIR_X, g, rows, row_bytes(config), POISON);
    if (!err && config->dtype != WEFT_EP_BF16)
      err = fill_rows(t, PAIR_SCALES, g, rows, scale_bytes(config), POISON);
    if (!err && t->answer == TRAFFIC_EXPERTS) {
      err = fill_rows(t, PAIR_Y, g, rows, y_bytes(config), POISON);
      t->unheld[g] = rows > t->unheld[g] ? rows : t->unheld[g];
    }
  }
  for (int i = PAIR_FIRST_LIST; i < PAIR_OUT && !err; i++)
    if (t->pairs[i].place)
      err = buffer_fill(t->home, t->pairs[i].place, POISON, t->pairs[i].size);
  return err ? err : buffer_fill(t->home, t->pairs[PAIR_OUT].place, POISON_NAN, t->pairs[PAIR_OUT].size);
}

int traffic_hold(struct traffic *t) {
  int err = 0;
  for (uint32_t g = 0; g < t->groups && !err; g++) {
    err = fill_rows(t, PAIR_Y, g, t->unheld[g], y_bytes(t->config), held_byte(t));
    t->unheld[g] = err ? t->rows : 0;
  }
  return err;
}

// The number of rows that the last operation received in a part.
static uint32_t used_rows(const struct traffic *t, uint32_t group) {
  return t->config->layout == WEFT_EP_PER_EXPERT ? (uint32_t)t->recv.counts[group]
         : t->config->layout == WEFT_EP_PACKED   ? t->info.rows_needed
                                                 : t->info.num_rows;
}

static int get_rows(struct traffic *t, int index, uint32_t group, size_t bytes) {
  size_t first = (size_t)group * t->rows * bytes;
  return buffer_get(t->home, (char *)t->pairs[index].host + first, (char *)t->pairs[index].place + first,
                    used_rows(t, group) * bytes);
}

int traffic_get_received(struct traffic *t) {
  int err = 0;
  if (!t->home->api || t->has_copies)
    return 0;
  for (int i = PAIR_FIRST_LIST; i < PAIR_OUT && !err; i++)
    if (t->pairs[i].place)
      err = buffer_get(t->home, t->pairs[i].host, t->pairs[i].place, t->pairs[i].size);
  for (uint32_t g = 0; g < t->groups && !err; g++) {
    if (used_rows(t, g) > t->rows)
      return fail(WEFT_ERR_DATA, "dispatch of operation %llu is wrong: it counts %d rows in part %u, which has %u",
                  (unsigned long long)t->info.op, (int)used_rows(t, g), g, t->rows);
    err = get_rows(t, PAIR_X, g, row_bytes(t->config));
    if (!err && t->config->dtype != WEFT_EP_BF16)
      err = get_rows(t, PAIR_SCALES, g, scale_bytes(t->config));
  }
  t->has_copies = !err;
  return err;
}

void traffic_release_rows(struct traffic *t) {
  for (int i = PAIR_X; i <= PAIR_Y; i++)
    buffer_forget(t->home, t->pairs[i].place, t->pairs[i].size);
  memset(t->dirty, 0, t->groups * sizeof *t->dirty);
}

int traffic_get_out(struct traffic *t) {
  const struct traffic_pair *back = &t->pairs[PAIR_OUT_WEIGHTS];
  int err = buffer_get(t->home, t->out, t->pairs[PAIR_OUT].place, t->input.num_tokens * y_bytes(t->config));
  return err || !back->place ? err : buffer_get(t->home, back->host, back->place, back->size);
}

int traffic_put_answer(struct traffic *t) {
  size_t bytes = y_bytes(t->config);
  int err = 0;
  for (uint32_t g = 0; g < t->groups && !err; g++) {
    uint32_t rows = used_rows(t, g);
    size_t first = (size_t)g * t->rows * bytes;
    err = buffer_put(t->home, (char *)t->pairs[PAIR_Y].place + first, (char *)t->y + first, rows * bytes);
    t->unheld[g] = rows > t->unheld[g] ? rows : t->unheld[g];
  }
  return err;
}

// Notes the used rows of each part. Without counts on the host only their total is known, which then counts for each
// part.
void traffic_note_dirty(struct traffic *t) {
  for (uint32_t g = 0; g < t->groups; g++) {
    bool in_parts = t->config->layout == WEFT_EP_PER_EXPERT;
    uint32_t rows = t->home->api && !t->has_copies && in_parts ? t->info.num_rows : used_rows(t, g);
    rows = rows < t->rows ? rows : t->rows;
    t->dirty[g] = rows > t->dirty[g] ? rows : t->dirty[g];
  }
}
