// Little-endian numbers in a buffer with checked bounds, for data that other hosts and versions read and write.
#ifndef BASE_WIRE_WIRE_H
#define BASE_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// A writer. It writes as long as there is room, and counts all bytes: without a buffer it computes the size needed.
struct wire_writer {
  uint8_t *bytes; // NULL: nothing is written
  size_t capacity;
  size_t at; // number of bytes so far, written or not
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

// Overwrites the number at `place`.
static inline void wire_patch_number(struct wire_writer *writer, size_t place, uint64_t value, size_t size) {
  struct wire_writer patch = {.bytes = writer->bytes, .capacity = writer->capacity, .at = place};
  wire_put_number(&patch, value, size);
}

// A reader. When bytes are missing, it returns zeros from then on, and `failed` is set.
struct wire_reader {
  const uint8_t *bytes;
  size_t size;
  size_t at;
  bool failed;
};

// The next `size` bytes, inside the buffer; NULL: they are missing.
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

// A reader of only the next `size` bytes, which this reader skips; the new one has failed if they are missing.
static inline struct wire_reader wire_take_part(struct wire_reader *reader, size_t size) {
  const uint8_t *bytes = wire_take(reader, size);
  return (struct wire_reader){.bytes = bytes, .size = bytes ? size : 0, .failed = !bytes};
}

static inline size_t wire_left(const struct wire_reader *reader) {
  return reader->failed ? 0 : reader->size - reader->at;
}

#endif
