// Writes the batches of the peer's relay into our window (relay.c). The whole batch is checked before.
#include <string.h>
#include <weft/err.h>

#include "cuda/relay/area.h"
#include "cuda/relay/batch.h"
#include "cuda/relay/flow_share.h"
#include "cuda/relay/relay.h"

static void deliver_units(char *to, const char *from, size_t bytes) {
  uint64_t words[2];
  for (size_t at = 0; at < bytes; at += CUDA_RELAY_UNIT) {
    memcpy(words, from + at, CUDA_RELAY_UNIT);
    cuda_store_word(to + at, words[0]);
    cuda_store_word(to + at + 8, words[1]); // with the flag
  }
}

// In any order: each word shows by itself that it has arrived.
static void deliver_values(char *to, const char *from, size_t bytes) {
  uint64_t word;
  for (size_t at = 0; at < bytes; at += sizeof word) {
    memcpy(&word, from + at, sizeof word);
    __atomic_store_n((cuda_word *)(to + at), word, __ATOMIC_RELAXED);
  }
}

static void deliver_lines(char *to, const char *from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += CUDA_LINE) {
    uint64_t flag;
    memcpy(&flag, from + at + CUDA_LINE - sizeof flag, sizeof flag);
    memcpy(to + at, from + at, CUDA_LINE - sizeof flag);
    cuda_store_word(to + at + CUDA_LINE - sizeof flag, flag);
  }
}

// To be called when a line of routing or a header arrives. If it belongs to another operation than before, no row of
// the operation is known yet.
static void record_flag(struct cuda_relay_incoming *theirs, const char *flag) {
  uint32_t *token = theirs->token, found;
  memcpy(&found, flag, sizeof found);
  if (found != theirs->flag)
    *theirs = (struct cuda_relay_incoming){.flag = found, .token = token};
}

// Routing has arrived, row by row: records the tokens that our kernels will answer.
static void record_routing(struct device_relay *relay, uint32_t slot, size_t first, const char *lines, size_t bytes) {
  struct cuda_relay_incoming *theirs = &relay->incoming[slot];
  uint32_t each = relay->layout.routing_lines;
  for (size_t i = 0; i < bytes / CUDA_LINE; i++) {
    size_t row = (first + i) / each;
    record_flag(theirs, lines + i * CUDA_LINE + CUDA_LINE - sizeof(uint64_t));
    if (row != theirs->rows || row >= relay->layout.max_tokens)
      return; // of an earlier operation
    cuda_relay_record_token(relay, &theirs->token[row], (uint32_t)((first + i) % each), lines + i * CUDA_LINE);
    theirs->rows += (first + i) % each + 1 == each;
  }
}

// Finds the slot that contains an offset; *at: offset from the begin of the slot.
static bool find_slot(const struct device_relay *relay, size_t offset, uint32_t *slot, size_t *at) {
  if (offset < sizeof(struct cuda_area_head))
    return false;
  *slot = (uint32_t)((offset - sizeof(struct cuda_area_head)) / relay->layout.slot);
  *at = (offset - sizeof(struct cuda_area_head)) % relay->layout.slot;
  return *slot < CUDA_DEPTH;
}

static bool is_of_stream(const struct device_relay *relay, const struct cuda_run *run) {
  return relay->flows && run->kind > RUN_VALUES;
}

static bool is_legal(const struct device_relay *relay, const struct cuda_run *run) {
  if (is_of_stream(relay, run))
    return run->bytes != 0 && cuda_flow_relay_is_legal(&relay->flow, run);
  uint32_t step = run->kind == RUN_LINES                              ? CUDA_LINE
                  : run->kind >= RUN_WORDS && run->kind <= RUN_VALUES ? CUDA_RELAY_UNIT
                                                                      : 0;
  return step != 0 && run->bytes != 0 && run->offset % step == 0 && run->bytes % step == 0 &&
         (uint64_t)run->offset + run->bytes <= relay->layout.area;
}

static void deliver_run(struct device_relay *relay, const struct cuda_run *run, const char *from) {
  if (is_of_stream(relay, run)) {
    cuda_flow_relay_deliver(&relay->flow, run, from);
    return;
  }
  const struct cuda_layout *layout = &relay->layout;
  char *to = relay->in + run->offset;
  uint32_t slot = 0;
  size_t at = 0;
  bool in_slot = find_slot(relay, run->offset, &slot, &at);
  // The relay's own state is updated first: kernels answer as soon as they see what is delivered.
  if (in_slot && run->kind == RUN_UNITS && at == 0)
    record_flag(&relay->incoming[slot], from + CUDA_RELAY_UNIT - sizeof(uint32_t));
  if (in_slot && run->kind == RUN_LINES && at >= layout->routing && at < layout->late)
    record_routing(relay, slot, (at - layout->routing) / CUDA_LINE, from, run->bytes);
  if (run->kind == RUN_LINES)
    deliver_lines(to, from, run->bytes);
  else if (run->kind == RUN_VALUES)
    deliver_values(to, from, run->bytes);
  else
    deliver_units(to, from, run->bytes);
}

// Reads the run at `at`, whose bytes follow it. The result is a copy, since the peer may change the original.
static int find_run(const struct device_relay *relay, const char *from, size_t size, size_t at, struct cuda_run *run,
                    char *why) {
  if (size - at < sizeof *run)
    return cuda_relay_fail(why, WEFT_ERR_PROTOCOL, "a batch of the peer's ends within a run");
  memcpy(run, from + at, sizeof *run);
  if (!is_legal(relay, run) || run->bytes > size - at - sizeof *run)
    return cuda_relay_fail(why, WEFT_ERR_PROTOCOL,
                           "a run of the peer's lies outside this area, or is of an unknown kind");
  return 0;
}

// Copies rows from windows of neighbours. `only_check`: only checks whether they could be copied.
static bool copy_shared(const struct device_relay *relay, const struct cuda_run *run, const char *from,
                        const struct device_neighbours *neighbours, bool only_check) {
  struct cuda_elsewhere where;
  const char *values = cuda_flow_share_resolve(&relay->flow, run, from, neighbours, &where);
  if (values && !only_check)
    memcpy(relay->in + run->offset, values, where.bytes);
  return values != NULL;
}

// Examines all runs and copies rows from neighbours. `only_check`: writes nothing. `*copies`: there are rows to be
// copied from neighbours.
static int look_at_runs(const struct device_relay *relay, const char *from, size_t size,
                        const struct device_neighbours *neighbours, bool only_check, bool *copies, char *why) {
  struct cuda_run run;
  for (size_t at = 0; at < size; at += sizeof run + run.bytes) {
    if (find_run(relay, from, size, at, &run, why) != 0)
      return WEFT_ERR_PROTOCOL;
    if (run.kind != RUN_ELSEWHERE)
      continue;
    *copies = true;
    if (!copy_shared(relay, &run, from + at + sizeof run, neighbours, only_check))
      return cuda_relay_fail(why, WEFT_ERR_PROTOCOL,
                             "a run of the peer's names a row in a window that is not known here");
  }
  return 0;
}

// Checks all runs before it writes anything. The words that make rows visible to kernels are written last.
int cuda_relay_deliver(struct device_relay *relay, const void *bytes, size_t size,
                       const struct device_neighbours *neighbours, char *why) {
  const char *from = bytes;
  struct cuda_run run;
  bool copies = false;
  int rc = look_at_runs(relay, from, size, neighbours, true, &copies, why);
  if (rc == 0 && copies)
    rc = look_at_runs(relay, from, size, neighbours, false, &copies, why);
  if (rc == 0 && copies && !neighbours->holds(neighbours->arg))
    rc = cuda_relay_fail(why, WEFT_ERR_PEER_LOST, "the peer has disconnected from this rank");
  for (size_t at = 0; rc == 0 && at < size; at += sizeof run + run.bytes) {
    rc = find_run(relay, from, size, at, &run, why);
    if (rc == 0 && run.kind != RUN_ELSEWHERE)
      deliver_run(relay, &run, from + at + sizeof run);
  }
  return rc;
}
