// The live keys in their order, as a skip list.
#include "store/core/keys.h"

#include "base/random.h"
#include <stdlib.h>
#include <string.h>

int core_bytes_order(const char *a, size_t a_size, const char *b, size_t b_size) {
  size_t common = a_size < b_size ? a_size : b_size;
  int order = common ? memcmp(a, b, common) : 0;
  return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare_record(const struct core_record *record, struct core_bytes key) {
  return core_bytes_order(record->data, record->key_size, key.data, key.size);
}

static bool unbounded(const struct core_range *range) {
  return range->end.size == 1 && range->end.data[0] == '\0';
}

// Whether a key that is not below the range's first is below its end.
static bool below_end(const struct core_range *range, const char *key, size_t size) {
  if (range->end.size == 0)
    return core_bytes_order(key, size, range->key.data, range->key.size) == 0;
  return unbounded(range) || core_bytes_order(key, size, range->end.data, range->end.size) < 0;
}

bool core_range_holds(const struct core_range *range, const char *key, size_t size) {
  return core_bytes_order(key, size, range->key.data, range->key.size) >= 0 && below_end(range, key, size);
}

static struct core_node *create(unsigned levels) {
  struct core_node *node = calloc(1, sizeof *node + levels * sizeof(struct core_node *));
  if (node)
    node->levels = levels;
  return node;
}

bool core_keys_init(struct core_keys *keys) {
  *keys = (struct core_keys){.head = create(CORE_KEYS_LEVELS)};
  return keys->head != NULL;
}

void core_keys_free(struct core_keys *keys) {
  struct core_node *node = keys->head;
  while (node) {
    struct core_node *next = node->next[0];
    core_record_unref(node->record);
    free(node);
    node = next;
  }
  *keys = (struct core_keys){0};
}

struct core_node *core_keys_node(struct core_keys *keys) {
  uint64_t bits = random_next(&keys->random);
  unsigned levels = 1;
  while (levels < CORE_KEYS_LEVELS && (bits & 3) == 0) {
    levels++;
    bits >>= 2;
  }
  return create(levels);
}

// The last node below `key` on each level.
static void seek(const struct core_keys *keys, struct core_bytes key, struct core_node *below[CORE_KEYS_LEVELS]) {
  struct core_node *node = keys->head;
  for (unsigned level = CORE_KEYS_LEVELS; level-- > 0;) {
    while (node->next[level] && compare_record(node->next[level]->record, key) < 0)
      node = node->next[level];
    below[level] = node;
  }
}

static struct core_bytes key_of(const struct core_node *node) {
  return (struct core_bytes){node->record->data, node->record->key_size};
}

void core_keys_insert(struct core_keys *keys, struct core_node *node) {
  struct core_node *below[CORE_KEYS_LEVELS];
  seek(keys, key_of(node), below);
  for (unsigned level = 0; level < node->levels; level++) {
    node->next[level] = below[level]->next[level];
    below[level]->next[level] = node;
  }
  keys->count++;
}

void core_keys_remove(struct core_keys *keys, struct core_node *node) {
  struct core_node *below[CORE_KEYS_LEVELS];
  seek(keys, key_of(node), below);
  for (unsigned level = 0; level < node->levels; level++)
    below[level]->next[level] = node->next[level];
  keys->count--;
}

static struct core_node *at_or_above(const struct core_keys *keys, struct core_bytes key) {
  struct core_node *below[CORE_KEYS_LEVELS];
  seek(keys, key, below);
  return below[0]->next[0];
}

struct core_node *core_keys_find(const struct core_keys *keys, struct core_bytes key) {
  struct core_node *node = at_or_above(keys, key);
  return node && compare_record(node->record, key) == 0 ? node : NULL;
}

static struct core_node *within(struct core_node *node, const struct core_range *range) {
  return node && below_end(range, node->record->data, node->record->key_size) ? node : NULL;
}

struct core_node *core_keys_first(const struct core_keys *keys, const struct core_range *range) {
  return within(at_or_above(keys, range->key), range);
}

struct core_node *core_keys_next(const struct core_node *node, const struct core_range *range) {
  return within(node->next[0], range);
}

size_t core_keys_count(const struct core_keys *keys, const struct core_range *range) {
  size_t count = 0;
  for (const struct core_node *node = core_keys_first(keys, range); node; node = core_keys_next(node, range))
    count++;
  return count;
}
