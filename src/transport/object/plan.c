// Cuts a request into parts, once, when it is prepared. The pieces are sorted by object and offset. Adjacent pieces
// become one range, and a long range is divided into several parts, which are transferred at once.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "transport/object/object.h"

struct entry {
  struct storage_region *region;
  uint64_t offset;
  uint32_t piece;
};

static int compare(const void *a, const void *b) {
  const struct entry *x = a, *y = b;
  if (x->region != y->region)
    return x->region->number < y->region->number ? -1 : 1;
  if (x->offset != y->offset)
    return x->offset < y->offset ? -1 : 1;
  return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static int sort_pieces(struct object_request *own) {
  const struct transport_request *request = own->base.request;
  struct entry *entries = calloc(request->num_pieces + 1u, sizeof *entries);
  own->order = calloc(request->num_pieces + 1u, sizeof *own->order);
  if (!entries || !own->order) {
    free(entries);
    return fail(WEFT_ERR_NOMEM, "out of memory for a request");
  }
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    const struct transport_piece *piece = &request->pieces[i];
    entries[i] = (struct entry){((struct storage_remote *)piece->remote)->region, piece->remote_address, i};
  }
  qsort(entries, request->num_pieces, sizeof *entries, compare);
  for (uint32_t i = 0; i < request->num_pieces; i++)
    own->order[i] = entries[i].piece;
  free(entries);
  return 0;
}

static const struct transport_piece *piece_at(const struct object_request *own, uint32_t entry) {
  return &own->base.request->pieces[own->order[entry]];
}

static struct object_region *region_of(const struct transport_piece *piece) {
  return (struct object_region *)((struct storage_remote *)piece->remote)->region;
}

// Adds the parts of a range that begins with `entry`. Without room for them (parts NULL) it counts.
static void cut(struct object_request *own, uint32_t entry, uint64_t offset, uint64_t length, uint64_t part_bytes) {
  const struct transport_piece *piece = own->parts ? piece_at(own, entry) : NULL;
  while (length > 0) {
    uint64_t take = length < part_bytes ? length : part_bytes;
    if (own->parts) {
      while (piece->remote_address + piece->length <= offset)
        piece = piece_at(own, ++entry);
      own->parts[own->num_parts] = (struct object_part){.offset = offset, .length = take, .first = entry};
    }
    own->num_parts++;
    offset += take;
    length -= take;
  }
}

static void cut_target(struct object_request *own, struct object_target *target, uint64_t part_bytes) {
  target->first_part = own->num_parts;
  uint32_t last = target->first_entry + target->num_entries;
  for (uint32_t begin = target->first_entry; begin < last;) {
    const struct transport_piece *piece = piece_at(own, begin);
    uint64_t offset = piece->remote_address, end = offset + piece->length;
    uint32_t next = begin + 1;
    for (; next < last && piece_at(own, next)->remote_address == end; next++)
      end += piece_at(own, next)->length;
    cut(own, begin, offset, end - offset, part_bytes);
    begin = next;
  }
  target->num_parts = own->num_parts - target->first_part;
}

static void find_targets(struct object_request *own) {
  own->num_targets = 0;
  for (uint32_t i = 0; i < own->base.request->num_pieces; i++) {
    struct object_region *region = region_of(piece_at(own, i));
    if (i == 0 || region != region_of(piece_at(own, i - 1))) {
      if (own->targets)
        own->targets[own->num_targets] = (struct object_target){.region = region, .first_entry = i};
      own->num_targets++;
    }
    if (own->targets)
      own->targets[own->num_targets - 1].num_entries++;
  }
}

// An object is written as a whole or not at all.
static int check_whole(const struct object_request *own, const struct object_target *target, uint64_t *size) {
  const char *path = target->region->base.base.memory.path;
  *size = 0;
  for (uint32_t i = 0; i < target->num_entries; i++) {
    const struct transport_piece *piece = piece_at(own, target->first_entry + i);
    if (piece->remote_address != *size)
      return fail(WEFT_ERR_INVALID,
                  "%s: an object is written as a whole, by one request: %s byte %llu (piece %u starts at %llu)", path,
                  piece->remote_address > *size ? "nothing is given for" : "more than once is given",
                  (unsigned long long)(piece->remote_address > *size ? *size : piece->remote_address),
                  own->order[target->first_entry + i], (unsigned long long)piece->remote_address);
    *size += piece->length;
  }
  if (*size > (uint64_t)5 << 40)
    return fail(WEFT_ERR_LIMIT, "%s: an object has 5 TiB at most, not %llu bytes", path, (unsigned long long)*size);
  return 0;
}

static int cut_all(struct object_request *own, const struct object_settings *set) {
  own->num_parts = 0;
  for (uint32_t i = 0; i < own->num_targets; i++) {
    uint64_t part_bytes = set->part_bytes, size = 0;
    if (own->base.request->op == WEFT_TRANSFER_WRITE) {
      int rc = check_whole(own, &own->targets[i], &size);
      if (rc < 0)
        return rc;
      uint64_t least = (size + OBJECT_MAX_PARTS - 1) / OBJECT_MAX_PARTS;
      part_bytes = part_bytes < least ? least : part_bytes;
    }
    cut_target(own, &own->targets[i], part_bytes);
  }
  return 0;
}

int object_plan(struct object_request *own, const struct object_settings *set) {
  int rc = sort_pieces(own);
  if (rc < 0)
    return rc;
  find_targets(own);
  own->targets = calloc(own->num_targets + 1u, sizeof *own->targets);
  if (!own->targets)
    return fail(WEFT_ERR_NOMEM, "out of memory for a request");
  find_targets(own);
  rc = cut_all(own, set);
  if (rc < 0)
    return rc;
  own->parts = calloc(own->num_parts + 1u, sizeof *own->parts);
  if (!own->parts)
    return fail(WEFT_ERR_NOMEM, "out of memory for a request of %u parts", own->num_parts);
  return cut_all(own, set);
}

void object_plan_free(struct object_request *own) {
  free(own->order);
  free(own->parts);
  free(own->targets);
}
