// Writes and checks cards: their kind, version, size and checksum.
#include "base/wire/card.h"

#include "base/fail.h"
#include "base/wire/crc32c.h"

enum { AT_LENGTH = 8, HEAD = 12, SUM = 4 };

struct wire_writer card_begin(const struct card *card, void *bytes, size_t size) {
  struct wire_writer writer = {.bytes = bytes, .capacity = size};
  wire_put_number(&writer, card->magic, 4);
  wire_put_number(&writer, card->version, 4);
  wire_put_number(&writer, 0, 4);
  return writer;
}

int card_end(const struct card *card, struct wire_writer *writer, size_t *size) {
  size_t needed = writer->at + SUM;
  if (!writer->bytes || needed > writer->capacity)
    return fail(WEFT_ERR_LIMIT, "the %s takes %zu bytes, and there is room for %zu", card->what, needed,
                writer->capacity);
  wire_patch_number(writer, AT_LENGTH, writer->at - HEAD, 4);
  wire_put_number(writer, crc32c(0, writer->bytes, writer->at), SUM);
  *size = needed;
  return 0;
}

int card_read(const struct card *card, const void *bytes, size_t size, struct wire_reader *body) {
  struct wire_reader reader = {.bytes = bytes, .size = size};
  if (wire_take_number(&reader, 4) != card->magic)
    return fail(WEFT_ERR_PROTOCOL, "these %zu bytes are not the expected %s", size, card->what);
  uint32_t version = (uint32_t)wire_take_number(&reader, 4);
  size_t length = wire_take_number(&reader, 4);
  struct wire_reader part = wire_take_part(&reader, length);
  uint32_t sum = (uint32_t)wire_take_number(&reader, SUM);
  if (reader.failed || wire_left(&reader) > 0 || sum != crc32c(0, bytes, size - SUM))
    return fail(WEFT_ERR_PROTOCOL, "the %s is damaged: %zu bytes whose checksum does not fit", card->what, size);
  if (version != card->version)
    return fail(WEFT_ERR_VERSION, "the %s is of version %u, but only version %u can be read here", card->what, version,
                card->version);
  *body = part;
  return 0;
}
