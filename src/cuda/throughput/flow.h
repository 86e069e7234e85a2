// The stream windows: memory through which the rows of operations of many tokens flow, however many they are.
//
// A window lies in the memory of its reader; its writer, the peer, maps it. It is cut into *channels*, whose number is
// the same for all ranks and does not depend on how many processors either side has. A token's rows, and its answers,
// go by channel token % CUDA_CHANNELS. A channel has a ring for rows and one for answers.
//
// **Positions.** Row j of a channel in operation n has position n * flow.list + j, whatever came before, and lies in
// place position % ring.places. flow.list is more than a channel ever has in one operation. So a rank that joins, or
// passes over an operation, needs to know nothing of what others did before: where things lie follows from the
// operation's number. Answers go by the number of the combine instead, EP_MAX_COMBINES for each operation. The writer
// says how far it is by the channel's *tail*: all before this position has arrived, and whether it was the last of the
// operation. The reader says it in its own window to the writer, by *credit*: all before this position has been read.
// At the begin of its kernel a reader gives credit for all operations before, whether it read them or not; a position
// that it was sent and has not read is behind it then.
//
// **Before the reader begins** it has read all that was sent in the operations before, if it has given credit for the
// newest in which the writer sent anything: that is what a writer waits for (struct cuda_flow_sent). So where the rows
// of an operation fit into the ring, one kernel can send them and another, later one receive: no sender waits for a
// receiver of the same operation. A tail says how many rows there are, and is not written over before that is known.
//
// **No circle of waits.** Each warp, or warp group, serves its channels in ascending order, at both ends. So the
// lowest channel that is not finished anywhere has all its ends at work. Rows: whoever reads serves all writers at
// once, and waits for nothing else. Answers: whoever writes serves all readers at once; whoever reads takes token after
// token.
//
// **In place.** Answers that lie in the zero-copy memory of those who send them, which the readers map, go through no
// ring. The channel's place (struct cuda_flow_place) says where they are and that they may be read, and credit that
// they have been: for it whoever sends waits before its kernel ends. A writer that gives a reader up says so before it
// goes on, and a reader looks at that when it has read: what it has read then may be what came later.
//
// Window: head | rings of rows [CUDA_CHANNELS] | rings of answers [CUDA_CHANNELS]
#ifndef CUDA_THROUGHPUT_FLOW_H
#define CUDA_THROUGHPUT_FLOW_H

#include "base/ep_limits.h"
#include "cuda/kernels/layout.h"

enum {
  CUDA_CHANNELS = 180,     // of 24 processors 15 warps of 12, each end of a combine, serve one each
  CUDA_STREAM_PAGE = 4096, // a stream begins with one
  CUDA_LEAST_PLACES = 3,   // each end has one row in hand that it has not published
};

// By the window's writer; zeros at first. `tail`: position * 2 + whether the operation's last row is before it.
struct cuda_flow_word {
  uint64_t tail;   // of the ring that the writer fills
  uint64_t credit; // for the ring of the same channel in the other direction
  // The same, of operations whose answers travel as logfmt10: ranks that differ in that see nothing of each other.
  uint64_t coded_tail, coded_credit;
};
// By the window's reader, of the window in the other direction, which it writes; zeros at first. Numbers are those of
// positions: of operations for rows, of combines for answers. Before `rows` and `answers` all has to be read by the
// peer before this rank writes more.
struct cuda_flow_sent {
  uint64_t rows, answers;
  uint64_t newest; // operation, + 1, in which rows went to the peer; 0: none, or it will read nothing of them
  uint64_t pad[13];
};
// Where a channel's answers lie if they are not in its ring: by the window's writer, in one store, which says all. No
// tail covers them.
struct cuda_flow_place {
  // The first of those to this reader, in units of its zero-copy memory. They go by the numbers of its rows in the
  // dispatch.
  uint32_t rows;
  uint32_t weights; // likewise, in words: of their row weights, or CUDA_NOT_IN_PLACE
  // Of the combine, + 1, as far as CUDA_PLACE_NUMBER, which repeats after 2^36 operations; below it, how many of those
  // answers this channel has.
  uint64_t number;
};
#define CUDA_NOT_IN_PLACE UINT32_MAX
#define CUDA_PLACE_NUMBER (UINT64_MAX >> CUDA_PLACE_COUNT)
enum { CUDA_PLACE_ROW = 16, CUDA_PLACE_WORD = 4 }; // bytes of these units
enum { CUDA_PLACE_COUNT = 16 };                    // bits of a count, which is less than flow.list
// By the window's writer, if it has given the reader up: what was to be read where it lies may change from now on.
struct cuda_flow_let_go {
  uint64_t answers; // of which combine, + 1
  uint64_t pad[15];
};
struct cuda_flow_head {
  struct cuda_flow_word rows[CUDA_CHANNELS], answers[CUDA_CHANNELS];
  struct cuda_flow_sent sent;
  struct cuda_flow_let_go let_go;
  struct cuda_flow_place places[CUDA_CHANNELS];
  uint64_t pad[728]; // the rings, which a peer on another host may write, have pages of their own
};

struct cuda_ring {
  uint64_t at;     // offset in the window of channel 0's
  uint32_t place;  // bytes of a place: values, then scales and routing, or row weights; a multiple of 128
  uint32_t places; // of a channel
  uint32_t batch;  // rows that a writer publishes at once
};

// Of a group; the same for all ranks.
struct cuda_flow {
  uint32_t max_tokens, hidden, topk, experts;
  uint32_t list; // positions of an operation in a channel
  struct cuda_ring rows, answers;
  uint64_t bytes; // of a window
};

// How the rows of a call travel.
struct cuda_row_shape {
  uint32_t in_bytes;    // values of a row as the caller has it
  uint32_t value_bytes; // as it travels
  uint32_t scale_words; // of 4 bytes; 0: none
  int casts;            // enum cuda_dtype that a bf16 row is cast to, else 0
};

CUDA_SHARED uint32_t cuda_routing_bytes(uint32_t topk) {
  return cuda_round_up(8 + 8 * topk, 16);
}

// 0 bytes: `window_bytes` has no room for CUDA_LEAST_PLACES rows of each ring. `row_bytes`: values and scales.
static inline void cuda_flow_init(struct cuda_flow *flow, uint64_t window_bytes, uint32_t max_tokens, uint32_t hidden,
                                  uint32_t topk, uint32_t experts, uint32_t row_bytes) {
  flow->max_tokens = max_tokens;
  flow->hidden = hidden;
  flow->topk = topk;
  flow->experts = experts;
  flow->list = (max_tokens + CUDA_CHANNELS - 1) / CUDA_CHANNELS + 1;
  flow->rows.place = cuda_round_up(row_bytes + 16 + cuda_routing_bytes(topk), CUDA_LINE);
  flow->answers.place = cuda_round_up(2 * hidden + 4 * topk, CUDA_LINE);
  // Half of it is for each.
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

// Tokens of an operation whose rows, or answers, fit into a ring all at once.
static inline uint32_t cuda_ring_tokens(const struct cuda_ring *ring) {
  return ring->places * CUDA_CHANNELS;
}
// Bytes of a window in which those of so many tokens do.
static inline uint64_t cuda_flow_bytes_for(const struct cuda_ring *ring, uint32_t tokens) {
  uint64_t places = (tokens + CUDA_CHANNELS - 1) / CUDA_CHANNELS;
  return sizeof(struct cuda_flow_head) + 2 * CUDA_CHANNELS * ring->place * places;
}

CUDA_STATIC_ASSERT(sizeof(struct cuda_flow_word) == 32, "a word has a sector of its own");
CUDA_STATIC_ASSERT(sizeof(struct cuda_flow_place) == 16, "a place is written in one store");
CUDA_STATIC_ASSERT(EP_MAX_TOKENS_THROUGHPUT / CUDA_CHANNELS + 1 < 1 << CUDA_PLACE_COUNT, "a place holds its count");
CUDA_STATIC_ASSERT(sizeof(struct cuda_flow_head) % CUDA_STREAM_PAGE == 0, "rings begin with a page");

#endif
