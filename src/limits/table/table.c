// The list of bounds: adding, finding, and its form in a file.
#include "limits/table/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "measure/fields.h"

static bool same_thing(const struct limits_entry *a, const struct limits_entry *b) {
  return a->kind == b->kind && a->processors == b->processors && a->bytes == b->bytes &&
         strcmp(a->device, b->device) == 0 && strcmp(a->other, b->other) == 0;
}

int limits_table_add(struct limits_table *table, const struct limits_entry *entry) {
  for (uint32_t i = 0; i < table->count; i++) {
    if (!same_thing(&table->list[i], entry))
      continue;
    if (entry->measured || !table->list[i].measured)
      table->list[i] = *entry;
    return 0;
  }
  struct limits_entry *list = realloc(table->list, (table->count + 1) * sizeof *list);
  if (!list)
    return fail(WEFT_ERR_NOMEM, "no memory for the bounds of this host");
  list[table->count++] = *entry;
  table->list = list;
  return 0;
}

void limits_table_drop(struct limits_table *table, enum limits_kind kind) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < table->count; i++)
    if (table->list[i].kind != kind)
      table->list[kept++] = table->list[i];
  table->count = kept;
}

void limits_table_free(struct limits_table *table) {
  free(table->list);
  *table = (struct limits_table){0};
}

const struct limits_entry *limits_table_find(const struct limits_table *table, enum limits_kind kind,
                                             const char *device, const char *other) {
  const struct limits_entry *found = NULL;
  for (uint32_t i = 0; i < table->count; i++) {
    const struct limits_entry *one = &table->list[i];
    if (one->kind != kind || (device && strcmp(one->device, device) != 0) || (other && strcmp(one->other, other) != 0))
      continue;
    if (one->measured)
      return one;
    found = found ? found : one;
  }
  return found;
}

// --- copies ---

// Copies between NUMA nodes are only shown to people: a route does not know the nodes of its buffers.
static bool serves(const struct limits_entry *one) {
  return one->kind == LIMITS_COPY && !*one->device;
}

// The smallest measured number of processors that is at least `processors`; if there is none, the largest measured one.
static uint32_t measured_count(const struct limits_table *table, uint32_t processors) {
  uint32_t above = UINT32_MAX, most = 0;
  for (uint32_t i = 0; i < table->count; i++) {
    uint32_t count = table->list[i].processors;
    if (!serves(&table->list[i]))
      continue;
    most = count > most ? count : most;
    above = processors > 0 && count >= processors && count < above ? count : above;
  }
  return above < UINT32_MAX ? above : most;
}

// A described rate is that of the memory itself, for any processors, and does not bound copies within the caches.
static const struct limits_entry *described(const struct limits_table *table, uint64_t bytes, uint64_t caches) {
  const struct limits_entry *entry = limits_table_find(table, LIMITS_COPY, "", NULL);
  return entry && !entry->measured && bytes > 2 * caches ? entry : NULL;
}

static uint32_t count_measured(const struct limits_table *table) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < table->count; i++)
    count += serves(&table->list[i]) && table->list[i].measured;
  return count;
}

// The fastest measurement with exactly that many processors whose set is not smaller than the largest one that is at
// most `bytes`: smaller sets are faster.
static const struct limits_entry *best_of(const struct limits_table *table, uint32_t processors, uint64_t bytes) {
  const struct limits_entry *best = NULL;
  uint64_t from = 0;
  for (uint32_t i = 0; i < table->count; i++) {
    const struct limits_entry *one = &table->list[i];
    if (serves(one) && one->measured && one->processors == processors && one->bytes <= bytes && one->bytes > from)
      from = one->bytes;
  }
  for (uint32_t i = 0; i < table->count; i++) {
    const struct limits_entry *one = &table->list[i];
    if (serves(one) && one->measured && one->processors == processors && one->bytes >= from &&
        (!best || one->gbps > best->gbps))
      best = one;
  }
  return best;
}

// Fewer processors may be faster than all of them, which compete for the memory, and not all of them may copy all the
// time. So the measurements of smaller numbers count, too.
const struct limits_entry *limits_table_copy(const struct limits_table *table, uint32_t processors, uint64_t bytes) {
  const struct limits_entry *entry = limits_table_find(table, LIMITS_COPY, "", NULL);
  if (count_measured(table) == 0)
    return entry ? described(table, bytes, entry->bytes) : NULL;
  uint32_t count = measured_count(table, processors);
  const struct limits_entry *best = best_of(table, count, bytes);
  for (uint32_t i = 0; i < table->count; i++) {
    const struct limits_entry *one = &table->list[i];
    const struct limits_entry *other =
        serves(one) && one->measured && one->processors < count ? best_of(table, one->processors, bytes) : NULL;
    if (other && (!best || other->gbps > best->gbps))
      best = other;
  }
  return best;
}

// --- JSON ---

static const char *const kind_names[] = {[LIMITS_COPY] = "copy",
                                         [LIMITS_LOOPBACK] = "loopback",
                                         [LIMITS_DISK_READ] = "disk read",
                                         [LIMITS_DISK_WRITE] = "disk write",
                                         [LIMITS_GPU_MEMORY] = "gpu memory",
                                         [LIMITS_GPU_LINK] = "gpu link",
                                         [LIMITS_GPU_HOST] = "gpu host",
                                         [LIMITS_NIC] = "nic",
                                         NULL};

#define ENTRY(member)                                                                                                  \
  .name = #member, .offset = offsetof(struct limits_entry, member),                                                    \
  .size = sizeof(((struct limits_entry *)NULL)->member)

static const struct field entry_fields[] = {
    {ENTRY(kind), .type = FIELD_NAME, .names = kind_names},
    {ENTRY(name), .type = FIELD_TEXT},
    {ENTRY(device), .type = FIELD_TEXT},
    {ENTRY(other), .type = FIELD_TEXT},
    {ENTRY(processors), .type = FIELD_U32},
    {ENTRY(bytes), .type = FIELD_U64},
    {ENTRY(gbps), .type = FIELD_REAL},
    {ENTRY(measured), .type = FIELD_BOOL},
    {ENTRY(detail), .type = FIELD_TEXT},
    {.name = NULL},
};

const char *limits_kind_name(enum limits_kind kind) {
  return kind_names[kind];
}

json_t *limits_table_to_json(const struct limits_table *table) {
  json_t *list = json_array();
  for (uint32_t i = 0; list && i < table->count; i++) {
    if (json_array_append_new(list, fields_to_json(entry_fields, &table->list[i])) == 0)
      continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

static int read_entry(struct limits_table *table, const json_t *json, size_t index) {
  struct limits_entry entry = {0};
  int rc = fields_from_json(entry_fields, &entry, json);
  if (rc == 0 && !(isfinite(entry.gbps) && entry.gbps > 0 && entry.gbps < 1e9))
    rc = fail(WEFT_ERR_PROTOCOL, "gbps: %g is not a bandwidth: want a number above 0 and below 1e9", entry.gbps);
  if (rc == 0)
    return limits_table_add(table, &entry);
  return fail_context(rc, "entry %zu", index);
}

int limits_table_from_json(struct limits_table *table, const json_t *list) {
  struct limits_table read = {0};
  int rc = 0;
  size_t index;
  json_t *one;
  if (!json_is_array(list) || json_array_size(list) > LIMITS_MAX_ENTRIES)
    return fail(WEFT_ERR_PROTOCOL, "entries: want a list of at most %d", LIMITS_MAX_ENTRIES);
  json_array_foreach(list, index, one) {
    rc = read_entry(&read, one, index);
    if (rc != 0)
      break;
  }
  if (rc != 0)
    limits_table_free(&read);
  else
    *table = read;
  return rc;
}
