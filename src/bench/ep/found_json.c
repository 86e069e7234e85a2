// Converts times and counts of ranks to JSON and back.
#include "bench/ep/found_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

enum { VALUES_MAX = 1 << 20 };

static json_t *times_to_json(const struct bench_ep_found_rank *rank, uint32_t num_times, uint32_t count) {
  json_t *times = json_array();
  for (uint32_t i = 0; times && i < num_times * count; i++)
    if (json_array_append_new(times, json_integer((json_int_t)rank->times[i])) != 0) {
      json_decref(times);
      return NULL;
    }
  return times;
}

static json_t *rank_to_json(const struct bench_ep_found_rank *rank, uint32_t num_times, uint32_t count) {
  const struct bench_ep_result *r = &rank->result;
  char id[2 * sizeof r->gpu_id + 1];
  for (size_t i = 0; i < sizeof r->gpu_id; i++)
    snprintf(id + 2 * i, 3, "%02x", r->gpu_id[i]);
  return json_pack("{s:[I,I], s:[I,I], s:I, s:I, s:s, s:s, s:I, s:s, s:o}",                                    //
                   "logical", (json_int_t)r->logical[0], (json_int_t)r->logical[1],                            //
                   "wire", (json_int_t)r->wire[0], (json_int_t)r->wire[1],                                     //
                   "pairs", (json_int_t)r->pairs, "hottest", (json_int_t)r->hottest_pairs,                     //
                   "gpu", r->gpu, "gpu_id", id, "gpu_index", (json_int_t)r->gpu_index, "way", r->way, "times", //
                   times_to_json(rank, num_times, count));
}

json_t *bench_ep_found_to_json(const struct bench_ep_found *found, uint32_t first, uint32_t most, uint32_t num_times) {
  json_t *ranks = json_array();
  for (uint32_t r = first; ranks && r < found->num_ranks && r < first + most; r++)
    if (json_array_append_new(ranks, rank_to_json(&found->ranks[r], num_times, found->count)) != 0) {
      json_decref(ranks);
      return NULL;
    }
  return json_pack("{s:I, s:b, s:o}", "count", (json_int_t)found->count, "stopped", found->stopped, "ranks", ranks);
}

// --- back ---

static int take_number(const json_t *value, const char *name, uint64_t *out) {
  if (!json_is_integer(value) || json_integer_value(value) < 0)
    return fail(WEFT_ERR_PROTOCOL, "%s is missing, or is not a number", name);
  *out = (uint64_t)json_integer_value(value);
  return 0;
}

static int take_text(const json_t *json, const char *name, char *out, size_t cap) {
  const char *text = json_string_value(json_object_get(json, name));
  if (!text || strlen(text) >= cap)
    return fail(WEFT_ERR_PROTOCOL, "%s is missing, or is not a text of less than %zu characters", name, cap);
  snprintf(out, cap, "%s", text);
  return 0;
}

static int take_gpu(const json_t *json, struct bench_ep_result *result) {
  char id[2 * sizeof result->gpu_id + 1];
  uint64_t index = 0;
  int err = take_text(json, "gpu", result->gpu, sizeof result->gpu);
  if (!err)
    err = take_text(json, "gpu_id", id, sizeof id);
  if (!err)
    err = take_number(json_object_get(json, "gpu_index"), "gpu_index", &index);
  for (size_t i = 0; !err && i < sizeof result->gpu_id; i++) {
    unsigned byte;
    if (sscanf(id + 2 * i, "%2x", &byte) != 1)
      return fail(WEFT_ERR_PROTOCOL, "gpu_id has other characters than hexadecimal digits");
    result->gpu_id[i] = (uint8_t)byte;
  }
  result->gpu_index = (uint32_t)index;
  return err;
}

static int take_times(struct bench_ep_found_rank *rank, uint32_t num_times, uint32_t count, const json_t *times) {
  if (json_array_size(times) != (size_t)num_times * count)
    return fail(WEFT_ERR_PROTOCOL, "times has %zu numbers: want %u", json_array_size(times), num_times * count);
  rank->times = calloc((size_t)BENCH_EP_MAX_TIMES * (count ? count : 1), sizeof *rank->times);
  if (!rank->times)
    return fail(WEFT_ERR_NOMEM, "no memory for the times of other hosts");
  int err = 0;
  for (uint32_t i = 0; i < num_times * count && !err; i++)
    err = take_number(json_array_get(times, i), "times", &rank->times[i]);
  return err;
}

static int take_rank(struct bench_ep_found_rank *rank, const json_t *json, uint32_t num_times, uint32_t count) {
  struct bench_ep_result *result = &rank->result;
  int err = 0;
  for (size_t i = 0; i < 2 && !err; i++) {
    err = take_number(json_array_get(json_object_get(json, "logical"), i), "logical", &result->logical[i]);
    if (!err)
      err = take_number(json_array_get(json_object_get(json, "wire"), i), "wire", &result->wire[i]);
  }
  if (!err)
    err = take_number(json_object_get(json, "pairs"), "pairs", &result->pairs);
  if (!err)
    err = take_number(json_object_get(json, "hottest"), "hottest", &result->hottest_pairs);
  if (!err)
    err = take_text(json, "way", result->way, sizeof result->way);
  if (!err)
    err = take_gpu(json, result);
  return err ? err : take_times(rank, num_times, count, json_object_get(json, "times"));
}

int bench_ep_found_from_json(struct bench_ep_found *found, uint32_t first, uint32_t count, const char *host,
                             uint32_t num_times, const json_t *json) {
  const json_t *ranks = json_object_get(json, "ranks");
  uint64_t timed = 0;
  int err = take_number(json_object_get(json, "count"), "count", &timed);
  found->stopped |= json_is_true(json_object_get(json, "stopped"));
  if (!err && json_array_size(ranks) != count)
    return fail(WEFT_ERR_PROTOCOL, "ranks has %zu elements: want %u", json_array_size(ranks), count);
  if (!err && count && !found->counted) { // no rank of this host takes part in this measurement
    if (timed > VALUES_MAX)
      return fail(WEFT_ERR_PROTOCOL, "count is %llu, above %d", (unsigned long long)timed, VALUES_MAX);
    found->count = (uint32_t)timed;
    found->counted = true;
  }
  if (!err && count && timed != found->count)
    return fail(WEFT_ERR_PROTOCOL, "%u iterations were timed there, but %u here", (unsigned)timed, found->count);
  for (uint32_t i = 0; i < count && !err; i++) {
    snprintf(found->ranks[first + i].host, sizeof found->ranks[first + i].host, "%s", host);
    err = take_rank(&found->ranks[first + i], json_array_get(ranks, i), num_times, found->count);
  }
  return err;
}
