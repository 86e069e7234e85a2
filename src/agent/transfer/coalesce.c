// Checks the pairs of local and remote descriptors of a transfer, and merges adjacent pairs to pieces.
#include <inttypes.h>
#include <stdlib.h>

#include "agent/transfer/transfer.h"
#include "base/fail.h"

// Walks the pairs in order.
struct walk {
  const struct agent_pairs *pairs;
  uint32_t next, run, within;
};

static void step(struct walk *walk, uint32_t *local, uint32_t *remote) {
  const struct weft_transfer_options *options = walk->pairs->options;
  uint32_t i = walk->next++;
  if (options->local_index) {
    *local = options->local_index[i];
    *remote = options->remote_index[i];
  } else if (options->runs) {
    while (walk->within == options->runs[walk->run].count) {
      walk->run++;
      walk->within = 0;
    }
    const struct weft_transfer_run *run = &options->runs[walk->run];
    *local = run->local_first + walk->within * run->local_stride;
    *remote = run->remote_first + walk->within * run->remote_stride;
    walk->within++;
  } else {
    *local = *remote = i;
  }
}

static bool run_fits(uint32_t first, uint32_t stride, uint32_t count, uint32_t limit) {
  return first + (uint64_t)(count - 1) * stride < limit;
}

static int check_runs(const struct agent_pairs *pairs, uint64_t *count) {
  const struct weft_transfer_options *options = pairs->options;
  *count = 0;
  for (uint32_t i = 0; i < options->num_runs; i++) {
    const struct weft_transfer_run *run = &options->runs[i];
    if (run->count == 0)
      continue;
    if (!run_fits(run->local_first, run->local_stride, run->count, pairs->local->count))
      return fail(WEFT_ERR_INVALID, "run %u goes beyond the local list of %u descriptors", i, pairs->local->count);
    if (!run_fits(run->remote_first, run->remote_stride, run->count, pairs->remote->count))
      return fail(WEFT_ERR_INVALID, "run %u goes beyond the remote list of %u descriptors", i, pairs->remote->count);
    *count += run->count;
  }
  return 0;
}

static int check_index(const struct agent_pairs *pairs) {
  const struct weft_transfer_options *options = pairs->options;
  for (uint32_t i = 0; i < options->num_index; i++) {
    if (options->local_index[i] >= pairs->local->count)
      return fail(WEFT_ERR_INVALID, "local_index[%u] is %u; the list has %u descriptors", i, options->local_index[i],
                  pairs->local->count);
    if (options->remote_index[i] >= pairs->remote->count)
      return fail(WEFT_ERR_INVALID, "remote_index[%u] is %u; the list has %u descriptors", i, options->remote_index[i],
                  pairs->remote->count);
  }
  return 0;
}

static int check_lengths(const struct agent_pairs *pairs) {
  struct walk walk = {.pairs = pairs};
  for (uint32_t i = 0; i < pairs->count; i++) {
    uint32_t local, remote;
    step(&walk, &local, &remote);
    if (pairs->local->spans[local].length != pairs->remote->spans[remote].length)
      return fail(WEFT_ERR_INVALID,
                  "pair %u: local descriptor %u has %" PRIu64 " bytes, remote descriptor %u has %" PRIu64, i, local,
                  pairs->local->spans[local].length, remote, pairs->remote->spans[remote].length);
  }
  return 0;
}

int agent_pairs_check(const weft_dlist_t *local, const weft_dlist_t *remote,
                      const struct weft_transfer_options *options, struct agent_pairs *pairs) {
  *pairs = (struct agent_pairs){.local = local, .remote = remote, .options = options};
  uint64_t count = 0;
  int rc = 0;
  if (!options->local_index != !options->remote_index)
    return fail(WEFT_ERR_INVALID, "only one of local_index and remote_index is given");
  if (options->num_index > 0 && !options->local_index)
    return fail(WEFT_ERR_INVALID, "num_index is %u, but local_index and remote_index are NULL", options->num_index);
  if (options->num_runs > 0 && !options->runs)
    return fail(WEFT_ERR_INVALID, "num_runs is %u, but runs is NULL", options->num_runs);
  if (options->local_index && options->runs)
    return fail(WEFT_ERR_INVALID, "both an index and runs are given");
  if (options->local_index) {
    rc = check_index(pairs);
    count = options->num_index;
  } else if (options->runs) {
    rc = check_runs(pairs, &count);
  } else {
    count = local->count;
    if (local->count != remote->count)
      rc = fail(WEFT_ERR_INVALID, "the local list has %u descriptors, the remote one %u", local->count, remote->count);
  }
  if (rc == 0 && (count == 0 || count > WEFT_AGENT_MAX_DESCRIPTORS))
    rc = fail(count == 0 ? WEFT_ERR_INVALID : WEFT_ERR_LIMIT, "a transfer has 1 to %d pairs, not %" PRIu64,
              WEFT_AGENT_MAX_DESCRIPTORS, count);
  pairs->count = (uint32_t)count;
  return rc == 0 ? check_lengths(pairs) : rc;
}

static int allocate(weft_transfer_t *transfer, uint32_t count, struct agent_region ***local,
                    struct agent_region ***remote) {
  transfer->pieces = calloc(count, sizeof *transfer->pieces);
  transfer->piece_of = calloc(count, sizeof *transfer->piece_of);
  *local = calloc(count, sizeof **local);
  *remote = calloc(count, sizeof **remote);
  if (transfer->pieces && transfer->piece_of && *local && *remote)
    return 0;
  free(*local);
  free(*remote);
  *local = *remote = NULL;
  return fail(WEFT_ERR_NOMEM, "no memory for %u pairs of descriptors", count);
}

int agent_pairs_merge(const struct agent_pairs *pairs, weft_transfer_t *transfer, struct agent_region ***local,
                      struct agent_region ***remote) {
  int rc = allocate(transfer, pairs->count, local, remote);
  if (rc != 0)
    return rc;
  struct walk walk = {.pairs = pairs};
  uint32_t pieces = 0;
  for (uint32_t i = 0; i < pairs->count; i++) {
    uint32_t l, r;
    step(&walk, &l, &r);
    const struct agent_span *here = &pairs->local->spans[l], *there = &pairs->remote->spans[r];
    struct transport_piece *last = pieces > 0 ? &transfer->pieces[pieces - 1] : NULL;
    if (last && (*local)[pieces - 1] == here->region && (*remote)[pieces - 1] == there->region &&
        last->local_address + last->length == here->address && last->remote_address + last->length == there->address) {
      last->length += here->length;
    } else {
      transfer->pieces[pieces] = (struct transport_piece){
          .local_address = here->address, .remote_address = there->address, .length = here->length};
      (*local)[pieces] = here->region;
      (*remote)[pieces++] = there->region;
    }
    transfer->piece_of[i] = pieces - 1;
    transfer->bytes += here->length;
  }
  transfer->num_pairs = pairs->count;
  transfer->num_pieces = pieces;
  if (pieces == pairs->count) {
    free(transfer->piece_of);
    transfer->piece_of = NULL;
  } else { // the pieces stay as long as the transfer: no more of them than there are
    struct transport_piece *less = realloc(transfer->pieces, pieces * sizeof *less);
    transfer->pieces = less ? less : transfer->pieces;
  }
  return 0;
}
