// Patterns and plans in memory.
#include "bench/traffic/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "measure/json_file.h"

const char *const traffic_memory_names[] = {"host", "cuda", NULL};

void traffic_plan_free(struct traffic_plan *plan) {
  for (uint32_t i = 0; i < plan->num_patterns; i++) {
    free(plan->patterns[i].pairs);
    json_decref(plan->patterns[i].metadata);
  }
  free(plan->patterns);
  *plan = (struct traffic_plan){0};
}

struct traffic_pattern *traffic_plan_add(struct traffic_plan *plan) {
  if (plan->num_patterns == TRAFFIC_MAX_PATTERNS) {
    fail(WEFT_ERR_LIMIT, "more than %d patterns", TRAFFIC_MAX_PATTERNS);
    return NULL;
  }
  struct traffic_pattern *grown =
      realloc(plan->patterns, (plan->num_patterns + 1) * sizeof *grown); // few patterns, and in no timed loop
  if (!grown) {
    fail(WEFT_ERR_NOMEM, "no memory for a pattern");
    return NULL;
  }
  plan->patterns = grown;
  struct traffic_pattern *pattern = &grown[plan->num_patterns++];
  *pattern = (struct traffic_pattern){.op = WEFT_TRANSFER_WRITE, .shards = 1};
  return pattern;
}

int traffic_pattern_add(struct traffic_pattern *pattern, const struct traffic_pair *pair) {
  if (traffic_pair_pieces(pair) > WEFT_AGENT_MAX_DESCRIPTORS)
    return fail(WEFT_ERR_LIMIT, "worker %u sends %u pieces to worker %u: a transfer has at most %d", pair->from,
                traffic_pair_pieces(pair), pair->to, WEFT_AGENT_MAX_DESCRIPTORS);
  if ((pattern->num_pairs & (pattern->num_pairs - 1)) == 0) { // the list is full at each power of two
    size_t room = pattern->num_pairs ? 2 * (size_t)pattern->num_pairs : 1;
    struct traffic_pair *grown = realloc(pattern->pairs, room * sizeof *grown);
    if (!grown)
      return fail(WEFT_ERR_NOMEM, "no memory for a pattern");
    pattern->pairs = grown;
  }
  pattern->pairs[pattern->num_pairs++] = *pair;
  return 0;
}

void traffic_pair_split(struct traffic_pair *pair, uint64_t bytes, uint32_t shards) {
  uint32_t count = bytes < shards ? (uint32_t)bytes : shards;
  pair->bytes = bytes;
  memset(pair->kinds, 0, sizeof pair->kinds);
  if (count == 0)
    return;
  uint32_t longer = (uint32_t)(bytes % count); // so many pieces have one byte more
  pair->kinds[0] = (struct traffic_pieces){.bytes = bytes / count + (longer > 0), .count = longer ? longer : count};
  pair->kinds[1] = (struct traffic_pieces){.bytes = bytes / count, .count = longer ? count - longer : 0};
}

uint32_t traffic_pair_pieces(const struct traffic_pair *pair) {
  return pair->kinds[0].count + pair->kinds[1].count;
}

uint64_t traffic_pattern_bytes(const struct traffic_pattern *pattern) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < pattern->num_pairs; i++)
    bytes += pattern->pairs[i].bytes;
  return bytes;
}

bool traffic_pattern_has(const struct traffic_pattern *pattern, uint32_t rank) {
  for (uint32_t i = 0; i < pattern->num_pairs; i++)
    if (pattern->pairs[i].from == rank || pattern->pairs[i].to == rank)
      return true;
  return false;
}

static uint32_t count_ends(const struct traffic_pattern *pattern, bool senders) {
  bool seen[TRAFFIC_MAX_RANKS] = {false};
  uint32_t count = 0;
  for (uint32_t i = 0; i < pattern->num_pairs; i++) {
    uint32_t rank = senders ? pattern->pairs[i].from : pattern->pairs[i].to;
    count += !seen[rank];
    seen[rank] = true;
  }
  return count;
}

uint32_t traffic_pattern_senders(const struct traffic_pattern *pattern) {
  return count_ends(pattern, true);
}

uint32_t traffic_pattern_receivers(const struct traffic_pattern *pattern) {
  return count_ends(pattern, false);
}

int traffic_file_read(const char *path, const char *what, size_t most, char **out, size_t *size) {
  FILE *file = NULL;
  int rc = json_file_open(path, what, &file);
  if (rc != 0)
    return rc;
  char *text = malloc(most + 1);
  errno = 0;
  *size = text ? fread(text, 1, most + 1, file) : 0;
  if (!text)
    rc = fail(WEFT_ERR_NOMEM, "%s: no memory to read it", path);
  else if (ferror(file))
    rc = fail_errno(errno, "%s: cannot read it", path);
  else if (*size > most)
    rc = fail(WEFT_ERR_LIMIT, "%s: it has more than %zu bytes: want %s", path, most, what);
  fclose(file);
  if (rc != 0) {
    free(text);
    return rc;
  }
  text[*size] = '\0';
  *out = text;
  return 0;
}
