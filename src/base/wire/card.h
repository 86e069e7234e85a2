// A card: bytes that others carry, such as an address or a key, with what they are, in which version, how many, and a
// checksum. What was cut or damaged on its way, or is something else, is refused before anything of it is believed.
//
// The head, three little-endian numbers of four bytes: magic number, version, bytes of the body. The body. CRC-32C of
// all that.
#ifndef BASE_WIRE_CARD_H
#define BASE_WIRE_CARD_H

#include <stddef.h>
#include <stdint.h>

#include "base/wire/wire.h"

// A kind of card.
struct card {
  const char *what; // "address of ..."
  uint32_t magic, version;
};

// Begins one in `size` bytes; the body is put into the writer.
struct wire_writer card_begin(const struct card *card, void *bytes, size_t size);
// Ends it; `*size` is then how long it is. LIMIT: the writer's buffer is too short.
int card_end(const struct card *card, struct wire_writer *writer, size_t *size);
// A reader of the body, where it stands. PROTOCOL: no such card, or a damaged one. VERSION: of another version.
int card_read(const struct card *card, const void *bytes, size_t size, struct wire_reader *body);

#endif
