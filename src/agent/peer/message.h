// The header of every message between agents: 48 bytes, little-endian.
#ifndef AGENT_PEER_MESSAGE_H
#define AGENT_PEER_MESSAGE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { AGENT_HEADER = 48, AGENT_MAGIC = 0x31414657 /* "WFA1" */ };

struct agent_header {
  uint32_t kind;
  uint32_t size;     // bytes that follow the header
  uint64_t from;     // a mark of the sender that only sender and receiver know: load.c
  uint64_t to;       // incarnation of the receiver: an agent with another incarnation drops the message
  uint64_t sequence; // of a notification: its number, which counts up; of another message: the highest number that has
                     // arrived
  uint64_t credit;   // the receiver's highest sequence that the sender's application has taken
};

static inline void agent_header_write(uint8_t *bytes, const struct agent_header *header) {
  uint32_t words[3] = {htole32(AGENT_MAGIC), htole32(header->kind), htole32(header->size)};
  uint64_t numbers[4] = {htole64(header->from), htole64(header->to), htole64(header->sequence),
                         htole64(header->credit)};
  memcpy(bytes, words, sizeof words);
  memset(bytes + 12, 0, 4);
  memcpy(bytes + 16, numbers, sizeof numbers);
}

// False: the bytes are no header.
static inline bool agent_header_read(const uint8_t *bytes, size_t size, struct agent_header *header) {
  uint32_t words[3];
  uint64_t numbers[4];
  if (size < AGENT_HEADER)
    return false;
  memcpy(words, bytes, sizeof words);
  memcpy(numbers, bytes + 16, sizeof numbers);
  *header = (struct agent_header){.kind = le32toh(words[1]),
                                  .size = le32toh(words[2]),
                                  .from = le64toh(numbers[0]),
                                  .to = le64toh(numbers[1]),
                                  .sequence = le64toh(numbers[2]),
                                  .credit = le64toh(numbers[3])};
  return le32toh(words[0]) == AGENT_MAGIC && header->size == size - AGENT_HEADER;
}

#endif
