// A card: bytes that programs pass on, such as an address or a key, with their kind, their version, their number and a
// checksum. Bytes that were cut or damaged on the way, or are something else, are refused before their content is used.
//
// Format: the head, which is three little-endian numbers of four bytes (magic number, version, bytes of the body); the
// body; the CRC-32C of both.
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

// Begins a card in `size` bytes; the caller writes the body with the writer.
struct wire_writer card_begin(const struct card *card, void *bytes, size_t size);
// Ends the card; `*size` is then its length. LIMIT: the writer's buffer is too short.
int card_end(const struct card *card, struct wire_writer *writer, size_t *size);
// A reader of the body, which is not copied. PROTOCOL: the bytes are no such card, or damaged. VERSION: the card has
// another version.
int card_read(const struct card *card, const void *bytes, size_t size, struct wire_reader *body);

#endif
