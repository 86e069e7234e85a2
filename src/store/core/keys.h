// The ordered set of live keys: a skip list (Pugh 1990), so that ranges are walked along one chain.
#ifndef STORE_CORE_KEYS_H
#define STORE_CORE_KEYS_H

#include "store/core/core.h"

enum { CORE_KEYS_LEVELS = 16 }; // one node in four reaches the next level: enough for 4^16 keys

struct core_lease;

// An existing key. `record` is its current state.
struct core_node {
  struct core_record *record;
  struct core_lease *lease; // NULL: none
  struct core_node *lease_prev, *lease_next;
  unsigned levels;
  struct core_node *next[]; // [levels]; next[0] is the next key
};

struct core_keys {
  struct core_node *head; // before the first key, of all levels
  size_t count;
  uint64_t random; // position in the stream of levels
};

bool core_keys_init(struct core_keys *keys); // false: no memory
void core_keys_free(struct core_keys *keys); // with nodes and their references

// A node that is not yet in the list. NULL: no memory.
struct core_node *core_keys_node(struct core_keys *keys);

// Links a node whose record is set; its key must not be in the list.
void core_keys_insert(struct core_keys *keys, struct core_node *node);

// Unlinks a node; the caller frees it.
void core_keys_remove(struct core_keys *keys, struct core_node *node);

struct core_node *core_keys_find(const struct core_keys *keys, struct core_bytes key);

// First node in the range, and the next one; NULL at the end.
struct core_node *core_keys_first(const struct core_keys *keys, const struct core_range *range);
struct core_node *core_keys_next(const struct core_node *node, const struct core_range *range);

// The number of keys in the range.
size_t core_keys_count(const struct core_keys *keys, const struct core_range *range);

#endif
