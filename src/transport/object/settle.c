// Sets the results of a request's pieces when a part of an object, or all of it, has moved or failed.
#include "transport/object/object.h"

const char *object_target_path(const struct object_target *target) {
  return target->region->base.base.memory.path ? target->region->base.base.memory.path : "an object";
}

static const struct transport_piece *piece_at(const struct object_request *own, uint32_t entry) {
  return &own->base.request->pieces[own->order[entry]];
}

void object_part_settle(struct object_request *own, const struct object_target *target, const struct object_part *part,
                        int err) {
  uint32_t last = target->first_entry + target->num_entries;
  uint64_t offset = part->offset, end = part->offset + part->length;
  for (uint32_t entry = part->first; entry < last && offset < end; entry++) {
    const struct transport_piece *piece = piece_at(own, entry);
    uint64_t piece_end = piece->remote_address + piece->length, run = (piece_end < end ? piece_end : end) - offset;
    if (err == 0)
      storage_request_moved(&own->base, own->order[entry], run);
    else
      storage_request_failed(&own->base, own->order[entry], err);
    offset += run;
  }
}

void object_target_moved(struct object_request *own, const struct object_target *target) {
  for (uint32_t i = 0; i < target->num_entries; i++) {
    uint32_t piece = own->order[target->first_entry + i];
    storage_request_moved(&own->base, piece, own->base.request->pieces[piece].length);
  }
}

void object_target_fail(struct object_request *own, struct object_target *target, int err) {
  if (target->err)
    return;
  target->err = err;
  for (uint32_t i = 0; i < target->num_entries; i++) {
    uint32_t piece = own->order[target->first_entry + i];
    if (own->base.left[piece] > 0)
      storage_request_failed(&own->base, piece, err);
  }
}

void object_request_finish(struct object_request *own) {
  if (own->running == 0 && own->next_target == own->num_targets && !link_empty(&own->base.link))
    storage_request_end(&own->base);
}
