// Rows that are sent to another host only once. Among the ranks that get a token and read each other's windows, only
// one, the *carrier*, gets the whole row. The others get the foot of the row, which differs for each rank, and the
// place of the values in the carrier's window; their relays copy the values from there.
//
// A row can be named when the batch that brought it has landed in the carrier's window. The row of another rank waits
// for that. If no rank has been sent the row yet, the channel determines the carrier, so that windows fill evenly,
// together with which links have the row in their rings; in the end all links see the same.
//
// A place in the carrier's window is written again only when all ranks to which it was named have put the batch that
// named it into their windows. This needs no kernel, so there is no circle of waits.
//
// If the carrier's kernels skip an operation, our kernels may overwrite a row before it has been collected; then the
// landed data is useless. The carrier gives credit for the row before that happens. So a row is named only if there was
// no credit for it when it had landed. (There is no credit yet for a row that the carrier reads: its credit arrives
// after, or together with, the report that the row has landed.)
#include "cuda/relay/flow_share.h"

#include <stdlib.h>
#include <string.h>
#include <weft/err.h>

enum { UNIT = sizeof(struct cuda_unit) };

int cuda_flow_share_open(struct cuda_flow_relay *relay) {
  relay->places = calloc((size_t)CUDA_CHANNELS * relay->flow.rows.places, sizeof *relay->places);
  relay->published = calloc(CUDA_CHANNELS, sizeof *relay->published);
  return relay->places && relay->published ? 0 : WEFT_ERR_NOMEM;
}

void cuda_flow_share_close(struct cuda_flow_relay *relay) {
  free(relay->places);
  free(relay->published);
}

// --- rows of the other links ---

static struct cuda_flow_share_place *place_of(const struct cuda_flow_relay *relay, uint32_t index, uint64_t position) {
  uint32_t places = relay->flow.rows.places;
  return &relay->places[(size_t)index * places + position % places];
}

// Finds the row of the same token that was sent to the link's peer in this operation; NULL: none was sent.
static struct cuda_flow_share_place *find_sent(const struct cuda_flow_relay *relay,
                                               const struct cuda_flow_share_row *row) {
  uint32_t places = relay->flow.rows.places;
  struct cuda_flow_share_place *ring = &relay->places[(size_t)row->index * places];
  for (uint32_t i = 0; i < places; i++)
    if (ring[i].token == row->token && ring[i].number > row->op * relay->flow.list &&
        ring[i].number <= (row->op + 1) * relay->flow.list)
      return &ring[i];
  return NULL;
}

// Whether the link's ring has such a row that was not sent yet. Tokens of a channel ascend.
static bool is_ready(const struct cuda_flow_relay *relay, const struct cuda_flow_share_row *row) {
  uint64_t end = cuda_load_word(&cuda_flow_relay_words(relay->out, relay, row->index)->tail) / 2,
           base = row->op * relay->flow.list;
  uint64_t position = relay->sent[row->index].tail / 2;
  if (end <= base || end > base + relay->flow.list)
    return false;
  for (position = position > base ? position : base; position < end; position++) {
    uint32_t token;
    memcpy(&token, relay->out + cuda_flow_relay_place(relay, row->index, position) + row->values + sizeof token,
           sizeof token);
    if (token >= row->token)
      return token == row->token;
  }
  return false;
}

// --- sending ---

void cuda_flow_share_land(struct cuda_flow_relay *relay, uint64_t stamp) {
  for (uint32_t index = 0; index < CUDA_CHANNELS; index++) {
    if (relay->newest[index] <= relay->landed)
      continue;
    uint64_t credit = cuda_load_word(&cuda_flow_relay_words(relay->in, relay, index)->credit);
    struct cuda_flow_share_place *ring = place_of(relay, index, 0);
    for (uint32_t i = 0; i < relay->flow.rows.places; i++)
      if (ring[i].stamp > relay->landed && ring[i].stamp <= stamp)
        ring[i].whole = credit < ring[i].number;
  }
  relay->landed = stamp;
}

bool cuda_flow_share_is_free(const struct cuda_flow_relay *relay, const struct device_sharing *sharing,
                             const struct cuda_flow_share_row *row) {
  const struct cuda_flow_share_place *place = place_of(relay, row->index, row->position);
  for (uint64_t seats = place->readers; seats; seats &= seats - 1) {
    int seat = __builtin_ctzll(seats);
    if (sharing->counted[seat] < relay->published[row->index][seat])
      return false;
  }
  return true;
}

// Each channel has its own order of the carriers: the first carrier that has the row carries it. So the first one never
// waits in this channel, and its rows are sent one after the other.
enum cuda_flow_share_way cuda_flow_share_find(const struct cuda_flow_relay *relay, const struct device_sharing *sharing,
                                              const struct cuda_flow_share_row *row, struct cuda_elsewhere *where) {
  bool waits = false, named = false, behind = false;
  for (uint32_t i = 0; row->values > 0 && i < sharing->count; i++) {
    const struct device_carrier *carrier = &sharing->carriers[(row->index + i) % sharing->count];
    const struct cuda_flow_relay *other = cuda_relay_flow(carrier->relay);
    behind |= other == relay;
    const struct cuda_flow_share_place *place = other == relay ? NULL : find_sent(other, row);
    if (!place) {
      waits |= !behind && is_ready(other, row);
    } else if (place->stamp > carrier->landed) {
      waits = true;
    } else if (place->whole && !named) {
      named = true;
      *where = (struct cuda_elsewhere){.window = carrier->window,
                                       .offset = (uint32_t)cuda_flow_relay_place(other, row->index, place->number - 1),
                                       .bytes = row->values};
    }
  }
  return named ? CUDA_SHARE_NAME : waits ? CUDA_SHARE_WAIT : CUDA_SHARE_SEND;
}

// Records one more reader of the carrier's place.
static void record_reader(struct device_sharing *sharing, const struct cuda_flow_share_row *row,
                          const struct cuda_elsewhere *named) {
  for (uint32_t i = 0; i < sharing->count; i++) {
    struct cuda_flow_relay *other = cuda_relay_flow(sharing->carriers[i].relay);
    struct cuda_flow_share_place *place = sharing->carriers[i].window == named->window ? find_sent(other, row) : NULL;
    if (!place)
      continue;
    place->readers |= UINT64_C(1) << sharing->seat;
    other->published[row->index][sharing->seat] = sharing->stamp;
  }
}

void cuda_flow_share_record(struct cuda_flow_relay *relay, struct device_sharing *sharing,
                            const struct cuda_flow_share_row *row, const struct cuda_elsewhere *named) {
  struct cuda_flow_share_place *place = place_of(relay, row->index, row->position);
  *place = (struct cuda_flow_share_place){.token = row->token};
  if (named) {
    record_reader(sharing, row, named);
    sharing->named_bytes += named->bytes;
  } else if (row->values > 0) {
    place->number = row->position + 1;
    place->stamp = relay->newest[row->index] = sharing->stamp;
  }
}

// --- receiving ---

static bool is_in_rows(const struct cuda_flow_relay *relay, uint64_t offset, uint64_t bytes) {
  const struct cuda_ring *ring = &relay->flow.rows;
  uint64_t begin = relay->offset + ring->at, end = begin + (uint64_t)CUDA_CHANNELS * ring->places * ring->place;
  return offset % UNIT == 0 && bytes % UNIT == 0 && offset >= begin && offset + bytes <= end;
}

const char *cuda_flow_share_resolve(const struct cuda_flow_relay *relay, const struct cuda_run *run, const char *from,
                                    const struct device_neighbours *neighbours, struct cuda_elsewhere *where) {
  memcpy(where, from, sizeof *where);
  if (!neighbours || where->bytes == 0 || !is_in_rows(relay, run->offset, where->bytes) ||
      !is_in_rows(relay, where->offset, where->bytes))
    return NULL;
  const char *window = neighbours->find(neighbours->arg, where->window);
  return window ? window + where->offset : NULL;
}
