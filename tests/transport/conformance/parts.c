// Objects are written as a whole, so a case that writes parts uses one object for each part.
#include "conformance/suite.h"

#include <stdlib.h>
#include <string.h>

#include "conformance/objects.h"

void place_open_parts(struct place *place, struct end *end, struct transport_peer *peer, uint64_t length,
                      uint64_t part) {
  if (!peer || suite.kind != WEFT_MEMORY_OBJECT) {
    place_open(place, end, peer, length);
    return;
  }
  assert_true(length % part == 0);
  *place = (struct place){.end = end, .kind = suite.kind, .length = length, .fd = -1};
  place->num_parts = (uint32_t)(length / part);
  place->parts = calloc(place->num_parts, sizeof *place->parts);
  assert_non_null(place->parts);
  for (uint32_t i = 0; i < place->num_parts; i++)
    place_open(&place->parts[i], end, peer, part);
}

const struct place *place_at(const struct place *place, uint64_t *offset) {
  if (!place->parts)
    return place;
  uint64_t unit = place->parts[0].length, part = *offset / unit;
  if (part >= place->num_parts)
    return &place->parts[0]; // out of bounds there too
  *offset -= part * unit;
  return &place->parts[part];
}

void place_lost_peer(struct place *place) {
  for (uint32_t i = 0; i < place->num_parts; i++)
    place_lost_peer(&place->parts[i]);
  place->remote = NULL;
}

void place_lost_worker(struct place *place) {
  for (uint32_t i = 0; i < place->num_parts; i++)
    place_lost_worker(&place->parts[i]);
  place->region = NULL;
}

void place_write_object(const struct place *place, uint64_t offset, const void *from, size_t size) {
  if (!place->parts) {
    assert_true(offset == 0 && size == place->length);
    objects_put(place->path, from, size);
    return;
  }
  for (uint64_t unit = place->parts[0].length, at = 0; at < size; at += unit)
    place_write_object(&place->parts[(offset + at) / unit], 0, (const char *)from + at, unit);
}

void place_read_object(const struct place *place, uint64_t offset, void *to, size_t size) {
  for (size_t at = 0, run; at < size; at += run) {
    uint64_t in_part = offset + at;
    const struct place *part = place_at(place, &in_part);
    run = size - at < part->length - in_part ? size - at : (size_t)(part->length - in_part);
    objects_get(part->path, in_part, (char *)to + at, run);
  }
}

static void check_either(const struct place *place, uint64_t at, const uint64_t seeds[2]) {
  size_t size = (size_t)place->length;
  unsigned char *bytes = malloc(2 * size), *wanted = bytes + size;
  bool good = false;
  assert_non_null(bytes);
  objects_get(place->path, 0, bytes, size);
  for (int i = 0; i < 2 && !good; i++) {
    pattern_fill(wanted, seeds[i], at, size);
    good = memcmp(bytes, wanted, size) == 0;
  }
  free(bytes);
  if (!good)
    fail_msg("%s is neither what it was nor what was written", place->path);
}

void place_check_either(const struct place *place, uint64_t seed, uint64_t other_seed) {
  const uint64_t seeds[] = {seed, other_seed};
  assert_true(place_is_whole(place));
  if (!place->parts)
    check_either(place, 0, seeds);
  for (uint32_t i = 0; i < place->num_parts; i++)
    check_either(&place->parts[i], i * place->parts[i].length, seeds);
}

void place_check_end(const struct place *place, uint64_t length) {
  assert_true(place_is_whole(place) && !place->parts);
  assert_int_equal(objects_size(place->path), length);
}
