// The format of a group's keys and values in the store.
#ifndef GROUP_CODEC_H
#define GROUP_CODEC_H

#include "group/group.h"

enum group_key_kind {
  GROUP_KEY_OTHER,
  GROUP_KEY_VIEW,
  GROUP_KEY_CLAIM,
  GROUP_KEY_TICKET,
  GROUP_KEY_OFFER,
  GROUP_KEY_BARRIER
};

// The parts of a key.
struct group_key {
  enum group_key_kind kind;
  int32_t rank;         // CLAIM, OFFER, BARRIER
  uint64_t incarnation; // TICKET
  const char *name;     // BARRIER: `name_length` bytes within the key
  size_t name_length;
};

// Parses `key` (NUL-terminated). OTHER: no group of this prefix and capacity writes such a key.
struct group_key group_key_parse(const char *prefix, uint32_t capacity, const char *key);

// Keys and values, malloc'd; NULL: out of memory.
char *group_key_view(const char *prefix);
char *group_key_claim(const char *prefix, int32_t rank);
char *group_key_ticket(const char *prefix, uint64_t incarnation);
char *group_key_offer(const char *prefix, int32_t rank);
char *group_key_barrier(const char *prefix, const char *name, int32_t rank);
char *group_incarnation_encode(uint64_t incarnation); // 16 hexadecimal digits
char *group_claim_encode(uint64_t incarnation, const char *address);
char *group_offer_encode(uint64_t incarnation, enum group_offer_stage stage);
char *group_view_encode(const struct group_view *view);

// PROTOCOL: the value is malformed; the text says how. `*address` is malloc'd; `*view` has one reference.
int group_incarnation_decode(const char *value, size_t length, uint64_t *incarnation);
int group_claim_decode(const char *value, size_t length, uint64_t *incarnation, char **address);
int group_offer_decode(const char *value, size_t length, uint64_t *incarnation, enum group_offer_stage *stage);
int group_view_decode(const char *value, size_t length, uint32_t capacity, struct group_view **view);

#endif
