// Contents that can be checked: each word is a mixed counter.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/signal/stop.h"
#include "bench/transfer/buffer.h"

enum { CHUNK = 1 << 18 };

static uint64_t key_of(const struct transfer_contents *contents) {
  return random_mix(random_mix(contents->seed ^ random_mix(contents->iteration)) ^ contents->stream);
}

void transfer_contents_make(const struct transfer_contents *contents, uint64_t at, char *out, uint64_t size) {
  uint64_t key = key_of(contents);
  for (uint64_t end = at + size; at < end;) {
    uint64_t word = random_mix(key + at / sizeof word), skip = at % sizeof word;
    uint64_t some = sizeof word - skip < end - at ? sizeof word - skip : end - at;
    memcpy(out, (const char *)&word + skip, some);
    out += some;
    at += some;
  }
}

uint64_t transfer_contents_compare(const struct transfer_contents *contents, uint64_t at, const char *found,
                                   uint64_t size, uint64_t *first) {
  char wanted[4096];
  uint64_t wrong = 0;
  for (uint64_t done = 0; done < size; done += sizeof wanted) {
    uint64_t some = size - done < sizeof wanted ? size - done : sizeof wanted;
    transfer_contents_make(contents, at + done, wanted, some);
    if (memcmp(wanted, found + done, some) == 0)
      continue;
    for (uint64_t i = 0; i < some; i++)
      if (wanted[i] != found[done + i] && wrong++ == 0)
        *first = at + done + i;
  }
  return wrong;
}

static int copy(struct transfer_buffer *buffer, void *to, const void *from, uint64_t size) {
  char why[DEVICE_WHY] = "";
  int err = buffer->api->copy(buffer->device, to, from, size, NULL, true, why);
  return err ? device_fail(err, "the contents of a GPU's memory", why) : 0;
}

int transfer_buffer_fill(struct transfer_buffer *buffer, uint64_t offset, const struct transfer_contents *contents,
                         uint64_t at, uint64_t size) {
  char *chunk = buffer->cuda ? malloc(CHUNK) : NULL;
  int err = buffer->cuda && !chunk ? fail(WEFT_ERR_NOMEM, "no memory for a buffer's contents") : 0;
  for (uint64_t done = 0; done < size && !err; done += CHUNK) {
    uint64_t some = size - done < CHUNK ? size - done : CHUNK;
    char *to = buffer->address + offset + done;
    transfer_contents_make(contents, at + done, chunk ? chunk : to, some);
    err = chunk ? copy(buffer, to, chunk, some) : 0;
    if (!err)
      err = stop_check();
  }
  free(chunk);
  return err;
}

int transfer_buffer_check(struct transfer_buffer *buffer, uint64_t offset, const struct transfer_contents *contents,
                          uint64_t at, uint64_t size, const char *who) {
  char *chunk = buffer->cuda ? malloc(CHUNK) : NULL;
  int err = buffer->cuda && !chunk ? fail(WEFT_ERR_NOMEM, "no memory to check a buffer") : 0;
  uint64_t wrong = 0, first = 0;
  for (uint64_t done = 0; done < size && !err; done += CHUNK) {
    uint64_t some = size - done < CHUNK ? size - done : CHUNK, place = 0;
    const char *from = buffer->address + offset + done;
    err = chunk ? copy(buffer, chunk, from, some) : 0;
    uint64_t found = err ? 0 : transfer_contents_compare(contents, at + done, chunk ? chunk : from, some, &place);
    if (found > 0 && wrong == 0)
      first = place - at;
    wrong += found;
    if (!err)
      err = stop_check();
  }
  free(chunk);
  if (!err && wrong > 0)
    err = fail(WEFT_ERR_DATA,
               "%s: %" PRIu64 " of %" PRIu64 " bytes of a block are wrong, the first of them byte %" PRIu64, who, wrong,
               size, first);
  return err;
}
