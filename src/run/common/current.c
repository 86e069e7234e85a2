// Converts the run's phase and its losses to JSON and back.
#include "run/common/current.h"

#include <stdlib.h>

#include "base/fail.h"

void run_current_free(struct run_current *current) {
  free(current->lost);
  *current = (struct run_current){0};
}

json_t *run_current_to_json(const struct run_current *current) {
  json_t *lost = json_array();
  bool failed = lost == NULL;
  for (uint32_t i = 0; i < current->num_lost; i++) {
    const struct run_lost *it = &current->lost[i];
    failed |= json_array_append_new(lost, json_pack("{s:i, s:i, s:b}", "phase", (int)it->phase, "rank", (int)it->rank,
                                                    "leaves", it->leaves)) != 0;
  }
  if (failed) {
    json_decref(lost);
    return NULL;
  }
  return json_pack("{s:i, s:o}", "phase", (int)current->phase, "lost", lost);
}

int run_current_add(struct run_current *current, const struct run_lost *lost) {
  struct run_lost *grown = realloc(current->lost, (current->num_lost + 1) * sizeof *grown);
  if (!grown)
    return fail(WEFT_ERR_NOMEM, "no memory for %u lost ranks", current->num_lost + 1);
  current->lost = grown;
  grown[current->num_lost++] = *lost;
  return 0;
}

static int lost_from_json(struct run_current *current, const json_t *json) {
  int phase = -1, rank = -1, leaves = 0;
  if (json_unpack((json_t *)json, "{s:i, s:i, s:b}", "phase", &phase, "rank", &rank, "leaves", &leaves) || phase < 0 ||
      rank < 0)
    return fail(WEFT_ERR_PROTOCOL, "key 'current' of the run: 'lost' is malformed");
  return run_current_add(current, &(struct run_lost){(uint32_t)phase, rank, leaves != 0});
}

int run_current_from_json(struct run_current *current, const json_t *json) {
  struct run_current read = {0};
  const json_t *phase = json_object_get(json, "phase"), *lost = json_object_get(json, "lost"), *item;
  json_int_t number = json_integer_value(phase);
  size_t i;
  int err = 0;
  if (!json_is_integer(phase) || number < 0 || number > PLAN_MAX_PHASES || !json_is_array(lost))
    return fail(WEFT_ERR_PROTOCOL, "key 'current' of the run: '%s' is missing or malformed",
                json_is_array(lost) ? "phase" : "lost");
  read.phase = (uint32_t)number;
  json_array_foreach(lost, i, item) {
    if (!err)
      err = lost_from_json(&read, item);
  }
  run_current_free(err ? &read : current);
  if (!err)
    *current = read;
  return err;
}

bool run_current_has_lost(const struct run_current *current, uint32_t phase, int32_t rank) {
  for (uint32_t i = 0; i < current->num_lost; i++)
    if (current->lost[i].phase == phase && current->lost[i].rank == rank)
      return true;
  return false;
}

void run_current_amend(const struct run_current *current, uint32_t from, struct plan *plan) {
  for (uint32_t i = from; i < current->num_lost; i++)
    plan_lose(plan, current->lost[i].phase, current->lost[i].rank);
}
