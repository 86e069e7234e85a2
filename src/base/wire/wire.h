// Little-endian numbers in a buffer whose bounds hold: what is written for other hosts and versions, and read from
// them.
#ifndef BASE_WIRE_WIRE_H
#define BASE_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Writes what has room and counts what has not: with no buffer it tells the need.
struct wire_writer {
  uint8_t *bytes; // NULL: nothing is written
  size_t capacity;
  size_t at; // bytes so far, written or not
};

static inline void wire_put(struct wire_writer *writer, const void *bytes, size_t size) {
  if (size > 0 && writer->bytes && writer->at <= writer->capacity && size <= writer->capacity - writer->at)
    memcpy(writer->bytes + writer->at, bytes, size);
  writer->at += size;
}

static inline void wire_put_number(struct wire_writer *writer, uint64_t value, size_t size) {
  uint8_t bytes[8];
  for (size_t i = 0; i < size; i++)
    bytes[i] = (uint8_t)(value >> 8 * i);
  wire_put(writer, bytes, size);
}

// Writes over what stands at `place` already.
static inline void wire_patch_number(struct wire_writer *writer, size_t place, uint64_t value, size_t size) {
  struct wire_writer patch = {.bytes = writer->bytes, .capacity = writer->capacity, .at = place};
  wire_put_number(&patch, value, size);
}

// Reads until something is not there; from then on it gives zeros, and `failed` holds.
struct wire_reader {
  const uint8_t *bytes;
  size_t size;
  size_t at;
  bool failed;
};

// The next `size` bytes, where they stand; NULL: they are not there.
static inline const void *wire_take(struct wire_reader *reader, size_t size) {
  if (reader->failed || size > reader->size - reader->at) {
    reader->failed = true;
    return NULL;
  }
  reader->at += size;
  return reader->bytes + reader->at - size;
}

static inline uint64_t wire_take_number(struct wire_reader *reader, size_t size) {
  const uint8_t *bytes = wire_take(reader, size);
  uint64_t value = 0;
  for (size_t i = 0; bytes && i < size; i++)
    value |= (uint64_t)bytes[i] << 8 * i;
  return value;
}

// A reader of the next `size` bytes alone, which are taken; it has failed if they are not there.
static inline struct wire_reader wire_take_part(struct wire_reader *reader, size_t size) {
  const uint8_t *bytes = wire_take(reader, size);
  return (struct wire_reader){.bytes = bytes, .size = bytes ? size : 0, .failed = !bytes};
}

static inline size_t wire_left(const struct wire_reader *reader) {
  return reader->failed ? 0 : reader->size - reader->at;
}

#endif
