// Makes, writes and checks the bytes that are sent.
#include "bench/traffic/contents.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/signal/stop.h"

enum { CHUNK = 1 << 20 };

uint64_t traffic_stream(uint64_t seed, uint64_t round, uint32_t pattern, const struct traffic_pair *pair) {
  uint64_t stream = random_mix(seed ^ random_mix(round));
  stream = random_mix(stream ^ ((uint64_t)pattern << 32));
  return random_mix(stream ^ ((uint64_t)pair->from << 32 | pair->to));
}

void traffic_stream_bytes(uint64_t stream, uint64_t at, void *out, size_t size) {
  char *to = out;
  size_t done = 0;
  while (done < size) { // one word at a time; of the first and the last word perhaps only a part is used
    uint64_t word = random_mix(stream + (at + done) / sizeof(uint64_t));
    size_t skip = (at + done) % sizeof word, take = sizeof word - skip;
    take = take < size - done ? take : size - done;
    memcpy(to + done, (const char *)&word + skip, take);
    done += take;
  }
}

static uint32_t common_divisor(uint32_t a, uint32_t b) {
  while (b) {
    uint32_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// Consecutive pieces lie a stride apart, backwards. The stride has no divisor in common with the number of pieces, and
// is not -1, so that each place is used once, and no two neighbours stay neighbours in their order.
static uint32_t shuffled(uint32_t index, uint32_t count) {
  uint32_t stride = (uint32_t)((uint64_t)count * 618 / 1000); // far from both ends
  while (stride > 1 && (common_divisor(stride, count) != 1 || stride == count - 1))
    stride--;
  return count - 1 - (uint32_t)((uint64_t)index * (stride ? stride : 1) % count);
}

struct traffic_place traffic_place(const struct traffic_pair *pair, uint32_t index) {
  const struct traffic_pieces *first = &pair->kinds[0], *second = &pair->kinds[1];
  uint64_t first_bytes = first->bytes * first->count, second_bytes = second->bytes * second->count;
  // At the receiver the second kind of pieces comes before the first.
  if (index < first->count)
    return (struct traffic_place){.sender = index * first->bytes,
                                  .receiver = second_bytes + shuffled(index, first->count) * first->bytes,
                                  .bytes = first->bytes};
  index -= first->count;
  return (struct traffic_place){.sender = first_bytes + index * second->bytes,
                                .receiver = shuffled(index, second->count) * second->bytes,
                                .bytes = second->bytes};
}

static int move(const struct traffic_area *area, void *to, const void *from, size_t size) {
  char why[DEVICE_WHY] = "";
  if (!area->device) {
    memcpy(to, from, size);
    return 0;
  }
  int rc = area->api->copy(area->device, to, from, size, NULL, true, why);
  return rc == 0 ? 0 : device_fail(rc, "the bytes of a pattern", why);
}

int traffic_area_fill(const struct traffic_area *area, const struct traffic_pair *pair, uint64_t stream) {
  char *chunk = malloc(CHUNK);
  int rc = chunk ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the bytes of a pattern");
  for (uint64_t at = 0; at < pair->bytes && rc == 0; at += CHUNK) {
    size_t size = pair->bytes - at < CHUNK ? (size_t)(pair->bytes - at) : CHUNK;
    rc = stop_check();
    traffic_stream_bytes(stream, at, chunk, size);
    if (rc == 0)
      rc = move(area, area->address + at, chunk, size);
  }
  free(chunk);
  return rc;
}

// Which bytes are wrong.
struct damage {
  uint64_t wrong, first; // how many; the place of the first one at the receiver
  uint32_t piece;
};

static int check_piece(const struct traffic_area *area, const struct traffic_pair *pair, uint64_t stream,
                       uint32_t index, char *buffers, struct damage *damage) {
  struct traffic_place place = traffic_place(pair, index);
  char *wanted = buffers, *found = buffers + CHUNK;
  for (uint64_t at = 0; at < place.bytes; at += CHUNK) {
    size_t size = place.bytes - at < CHUNK ? (size_t)(place.bytes - at) : CHUNK;
    int rc = move(area, found, area->address + place.receiver + at, size);
    if (rc != 0)
      return rc;
    traffic_stream_bytes(stream, place.sender + at, wanted, size);
    if (memcmp(wanted, found, size) == 0)
      continue;
    for (size_t i = 0; i < size; i++)
      if (wanted[i] != found[i] && damage->wrong++ == 0) {
        damage->first = place.receiver + at + i;
        damage->piece = index;
      }
  }
  return 0;
}

int traffic_area_check(const struct traffic_area *area, const struct traffic_pair *pair, uint64_t stream) {
  struct damage damage = {0};
  char *buffers = malloc(2 * (size_t)CHUNK);
  int rc = buffers ? 0 : fail(WEFT_ERR_NOMEM, "no memory to check a pattern");
  uint32_t pieces = traffic_pair_pieces(pair);
  for (uint32_t i = 0; i < pieces && rc == 0; i++) {
    rc = stop_check();
    if (rc == 0)
      rc = check_piece(area, pair, stream, i, buffers, &damage);
  }
  free(buffers);
  if (rc == 0 && damage.wrong > 0)
    rc = fail(WEFT_ERR_DATA,
              "%" PRIu64 " of the %" PRIu64 " bytes that worker %u sent to worker %u are wrong, the first of them at "
              "offset %" PRIu64 ", in piece %u of %u",
              damage.wrong, pair->bytes, pair->from, pair->to, damage.first, damage.piece, pieces);
  return rc;
}
