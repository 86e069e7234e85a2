// The stream windows: memory of fixed size through which the rows of throughput operations flow, however many rows
// there are.
//
// A window lies in the memory of its reader; the writer, which is the peer, maps it. It is divided into *channels*,
// whose number is the same for all ranks and does not depend on how many processors either side has. The rows and
// answers of a token use channel token % CUDA_CHANNELS. A channel has a ring for rows and one for answers.
//
// **Positions.** Row j of a channel in operation n has position n * flow.list + j, independent of earlier operations,
// and lies in place position % ring.places. flow.list is larger than the number of rows that a channel can have in one
// operation. So a rank that joins, or skips an operation, needs no knowledge of earlier operations: the operation's
// number determines the places. Answers use the number of the combine instead, EP_MAX_COMBINES for each operation. The
// writer publishes its progress in the channel's *tail*: all rows before this position have arrived, and whether the
// last row of the operation is among them. The reader publishes its progress in its own window to the writer, as
// *credit*: all rows before this position have been read. When its kernel begins, a reader gives credit for all earlier
// operations, whether it has read them or not; so rows that it was sent and has not read do not block the writer.
//
// **Before a writer begins** it waits until the reader has given credit for the newest earlier operation in which the
// writer sent rows (struct cuda_flow_sent): the reader has then read all rows of earlier operations. So if the rows of
// an operation fit into the ring, one kernel can send them, and a later kernel can receive them: no sender waits for a
// receiver of the same operation. A tail gives the number of rows, and is not overwritten before the reader knows that
// number.
//
// **No circle of waits.** Each warp, or warp group, serves its channels in ascending order, at both ends. So at the
// lowest unfinished channel all ends are at work. Rows: the reader serves all writers at the same time, and waits for
// nothing else. Answers: the writer serves all readers at the same time; the reader takes one token after the other.
//
// **In place.** Answers that lie in the sender's zero-copy memory, which the readers map, use no ring. The channel's
// place (struct cuda_flow_place) says where they are and that they may be read. Credit says that they have been read;
// the sender waits for it before its kernel ends. A writer that gives a reader up announces this before it continues.
// The reader checks for the announcement after it has read, since the data may have been overwritten in the meantime.
//
// Window: head | rings of rows [CUDA_CHANNELS] | rings of answers [CUDA_CHANNELS]
#ifndef CUDA_THROUGHPUT_FLOW_H
#define CUDA_THROUGHPUT_FLOW_H

#include "base/ep_limits.h"
#include "cuda/kernels/layout.h"

enum {
  // with 24 processors, each end of a combine has 12 processors of 15 warps, one warp for each channel
  CUDA_CHANNELS = 180,
  CUDA_STREAM_PAGE = 4096, // a stream begins with one
  CUDA_LEAST_PLACES = 3,   // each end may hold one row that it has not published
};

// Written by the window's writer; initially zero. `tail`: position * 2 + whether the operation's last row is before it.
struct cuda_flow_word {
  uint64_t tail;   // of the ring that the writer fills
  uint64_t credit; // for the ring of the same channel in the other direction
  // The same for operations whose answers are encoded as logfmt10: ranks that differ in the encoding do not see each
  // other's answers.
  uint64_t coded_tail, coded_credit;
};
// Written by the window's reader, about the window in the other direction, which this rank writes; initially zero.
// Numbers are those of which positions are made: of operations for rows, of combines for answers. The peer must have
// read everything before `rows` and `answers` before this rank writes more.
struct cuda_flow_sent {
  uint64_t rows, answers;
  // newest operation, + 1, in which rows were sent to the peer; 0: none, or the peer will read none of them
  uint64_t newest;
  uint64_t pad[13];
};
// Where a channel's answers lie if they are not in its ring. The window's writer writes it with one store. No tail
// covers these answers.
struct cuda_flow_place {
  // The first answer for this reader, in units of the zero-copy memory. Answers are ordered by the numbers of the
  // reader's rows in the dispatch.
  uint32_t rows;
  uint32_t weights; // the row weights of these answers, in words; or CUDA_NOT_IN_PLACE
  // High bits: number of the combine, + 1, within CUDA_PLACE_NUMBER, which repeats after 2^36 operations. Low bits: how
  // many of these answers this channel has.
  uint64_t number;
};
#define CUDA_NOT_IN_PLACE UINT32_MAX
#define CUDA_PLACE_NUMBER (UINT64_MAX >> CUDA_PLACE_COUNT)
enum { CUDA_PLACE_ROW = 16, CUDA_PLACE_WORD = 4 }; // bytes of these units
enum { CUDA_PLACE_COUNT = 16 };                    // bits of a count, which is less than flow.list
// Written by the window's writer when it has given the reader up: answers to be read in place may change from now on.
struct cuda_flow_let_go {
  uint64_t answers; // number of the combine, + 1
  uint64_t pad[15];
};
struct cuda_flow_head {
  struct cuda_flow_word rows[CUDA_CHANNELS], answers[CUDA_CHANNELS];
  struct cuda_flow_sent sent;
  struct cuda_flow_let_go let_go;
  struct cuda_flow_place places[CUDA_CHANNELS];
  uint64_t pad[728]; // puts the rings on separate pages, since a peer on another host may write them
};

struct cuda_ring {
  uint64_t at;     // offset of channel 0's ring in the window
  uint32_t place;  // bytes of a place: values, then scales and routing, or row weights; a multiple of 128
  uint32_t places; // places of a channel
  uint32_t batch;  // rows that a writer publishes at once
};

// The streams of a group; the same for all ranks.
struct cuda_flow {
  uint32_t max_tokens, hidden, topk, experts;
  uint32_t list; // positions of an operation in a channel
  struct cuda_ring rows, answers;
  uint64_t bytes; // of a window
};

// The format in which the rows of a call are sent.
struct cuda_row_shape {
  uint32_t in_bytes;    // bytes of a row's values in the caller's memory
  uint32_t value_bytes; // bytes of a row's values as sent
  uint32_t scale_words; // of 4 bytes; 0: none
  int casts;            // enum cuda_dtype that a bf16 row is cast to, else 0
};

CUDA_SHARED uint32_t cuda_routing_bytes(uint32_t topk) {
  return cuda_round_up(8 + 8 * topk, 16);
}

// flow->bytes is 0 if `window_bytes` has no room for CUDA_LEAST_PLACES rows of each ring. `row_bytes`: values and
// scales.
static inline void cuda_flow_init(struct cuda_flow *flow, uint64_t window_bytes, uint32_t max_tokens, uint32_t hidden,
                                  uint32_t topk, uint32_t experts, uint32_t row_bytes) {
  flow->max_tokens = max_tokens;
  flow->hidden = hidden;
  flow->topk = topk;
  flow->experts = experts;
  flow->list = (max_tokens + CUDA_CHANNELS - 1) / CUDA_CHANNELS + 1;
  flow->rows.place = cuda_round_up(row_bytes + 16 + cuda_routing_bytes(topk), CUDA_LINE);
  flow->answers.place = cuda_round_up(2 * hidden + 4 * topk, CUDA_LINE);
  // Each ring gets half of the rest.
  uint64_t at = sizeof(struct cuda_flow_head),
           half = window_bytes > at ? (window_bytes - at) / 2 / CUDA_LINE * CUDA_LINE : 0;
  struct cuda_ring *rings[2] = {&flow->rows, &flow->answers};
  flow->bytes = 0;
  for (int i = 0; i < 2; i++) {
    uint64_t places = half / ((uint64_t)CUDA_CHANNELS * rings[i]->place);
    if (places < CUDA_LEAST_PLACES)
      return;
    if (places > flow->list)
      places = flow->list < CUDA_LEAST_PLACES ? (uint32_t)CUDA_LEAST_PLACES : flow->list;
    rings[i]->places = (uint32_t)places;
    // A fence at system scope takes as long as a row.
    rings[i]->batch = places >= 24 ? 8 : places >= 3 ? (uint32_t)places / 3 : 1;
    rings[i]->at = at;
    at += (uint64_t)CUDA_CHANNELS * rings[i]->place * places;
  }
  flow->bytes = at;
}

// Number of tokens of an operation whose rows (or answers) all fit into a ring at the same time.
static inline uint32_t cuda_ring_tokens(const struct cuda_ring *ring) {
  return ring->places * CUDA_CHANNELS;
}
// Bytes of a window whose ring holds the rows (or answers) of so many tokens at the same time.
static inline uint64_t cuda_flow_bytes_for(const struct cuda_ring *ring, uint32_t tokens) {
  uint64_t places = (tokens + CUDA_CHANNELS - 1) / CUDA_CHANNELS;
  return sizeof(struct cuda_flow_head) + 2 * CUDA_CHANNELS * ring->place * places;
}

CUDA_STATIC_ASSERT(sizeof(struct cuda_flow_word) == 32, "a word has a sector of its own");
CUDA_STATIC_ASSERT(sizeof(struct cuda_flow_place) == 16, "a place is written in one store");
CUDA_STATIC_ASSERT(EP_MAX_TOKENS_THROUGHPUT / CUDA_CHANNELS + 1 < 1 << CUDA_PLACE_COUNT, "a place holds its count");
CUDA_STATIC_ASSERT(sizeof(struct cuda_flow_head) % CUDA_STREAM_PAGE == 0, "rings begin with a page");

#endif
