// The check of contents: writes them to the place that the transfer reads, and compares them at the place that it
// wrote.
//
// Each byte is a function of a seed, of the iteration that wrote it, and of its place in the target's memory. So a byte
// of an earlier iteration, or of another place, is recognised as wrong.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/transfer/row.h"

enum { ROUNDS = 3 };

static struct transfer_contents contents_of(const struct transfer_rowing *rowing, uint64_t stream) {
  return (struct transfer_contents){
      .seed = rowing->worker->seed, .iteration = rowing->worker->iteration, .stream = stream};
}

// --- the initiator's side, block by block ---

typedef int (*block_fn)(struct transfer_rowing *rowing, const struct transfer_contents *contents,
                        const struct transfer_block *block);

static int fill_here(struct transfer_rowing *rowing, const struct transfer_contents *contents,
                     const struct transfer_block *block) {
  return transfer_buffer_fill(block->buffer, block->offset, contents, block->at, rowing->load.block);
}

static int check_here(struct transfer_rowing *rowing, const struct transfer_contents *contents,
                      const struct transfer_block *block) {
  char who[64];
  snprintf(who, sizeof who, "what rank %u has read", rowing->worker->rank);
  return transfer_buffer_check(block->buffer, block->offset, contents, block->at, rowing->load.block, who);
}

static int write_file(struct transfer_rowing *rowing, const struct transfer_contents *contents,
                      const struct transfer_block *block) {
  return transfer_stored_write(&rowing->worker->stored, contents, block, rowing->load.block);
}

static int check_file(struct transfer_rowing *rowing, const struct transfer_contents *contents,
                      const struct transfer_block *block) {
  return transfer_stored_check(&rowing->worker->stored, contents, block, rowing->load.block);
}

// Calls `act` for every block of the first `slots` slots of every thread, at their places of `variant`.
static int each_block(struct transfer_rowing *rowing, uint32_t slots, uint32_t variant, block_fn act) {
  const struct transfer_load *load = &rowing->load;
  int err = 0;
  for (uint32_t thread = 0; thread < rowing->num_lanes; thread++)
    for (uint32_t slot = 0; slot < slots; slot++)
      for (uint32_t member = 0; member < load->group; member++)
        for (uint64_t number = 0; number < load->batch && !err; number++) {
          struct transfer_block block = {0};
          load->place(load->arg, thread, slot, member, variant, number, &block);
          struct transfer_contents contents = contents_of(rowing, block.stream);
          err = act(rowing, &contents, &block);
        }
  return err;
}

// --- the target's side: areas, thread by thread, since with few iterations not all slots were used ---

static int each_area(struct transfer_rowing *rowing, uint32_t slots, bool fills) {
  struct transfer_worker *worker = rowing->worker;
  const struct transfer_load *load = &rowing->load;
  uint32_t threads = worker->plan->config.num_threads;
  uint64_t lane = load->block * load->batch * load->depth, used = load->block * load->batch * slots;
  int err = 0;
  for (uint32_t i = 0; i < worker->pairs.count; i++) {
    const struct transfer_pair *pair = &worker->pairs.list[i];
    if (pair->target.rank != worker->rank)
      continue;
    struct transfer_contents contents = contents_of(rowing, i);
    struct transfer_buffer *buffer = &worker->buffers[pair->target.buffer];
    char who[96];
    snprintf(who, sizeof who, "what rank %u has written to rank %u", pair->initiator.rank, worker->rank);
    for (uint32_t thread = 0; thread < threads && !err; thread++) {
      uint64_t at = lane * thread, offset = lane * threads * pair->target_area + at;
      err = fills ? transfer_buffer_fill(buffer, offset, &contents, at, used)
                  : transfer_buffer_check(buffer, offset, &contents, at, used, who);
    }
  }
  return err;
}

// --- storage ---

// Moves each slot once, in the direction that is not measured: this is the only way to reach objects.
static int move_other_way(struct transfer_rowing *rowing, uint32_t variant) {
  struct transfer_load load = rowing->load;
  int err = 0;
  load.op = load.op == WEFT_TRANSFER_READ ? WEFT_TRANSFER_WRITE : WEFT_TRANSFER_READ;
  load.iterations = load.depth;
  load.warmup = 0;
  load.recreate = false;
  load.num_reregister = 0;
  for (uint32_t thread = 0; thread < rowing->num_lanes && !err; thread++) {
    struct transfer_lane lane;
    err = transfer_lane_open(&lane, &load, thread);
    if (err)
      break;
    for (uint32_t slot = 0; slot < load.depth; slot++)
      lane.variant[slot] = variant;
    err = transfer_lane_run(&lane, load.depth);
    transfer_lane_close(&lane);
  }
  return err;
}

// Fills the buffers with contents that no check accepts.
static int spoil_here(struct transfer_rowing *rowing, uint32_t slots, uint32_t variant) {
  uint64_t iteration = rowing->worker->iteration;
  rowing->worker->iteration = UINT64_MAX;
  int err = each_block(rowing, slots, variant, fill_here);
  rowing->worker->iteration = iteration;
  return err;
}

// Writes the contents to the storage before they are read.
static int store(struct transfer_rowing *rowing, uint32_t slots, uint32_t variant) {
  if (rowing->worker->plan->storage == TRANSFER_FILES)
    return each_block(rowing, slots, variant, write_file);
  int err = each_block(rowing, slots, variant, fill_here);
  if (!err)
    err = move_other_way(rowing, variant);
  return err ? err : spoil_here(rowing, slots, variant);
}

static int check_stored(struct transfer_rowing *rowing, uint32_t slots, uint32_t variant) {
  if (rowing->worker->plan->storage == TRANSFER_FILES)
    return each_block(rowing, slots, variant, check_file);
  int err = spoil_here(rowing, slots, variant);
  if (!err)
    err = move_other_way(rowing, variant);
  return err ? err : each_block(rowing, slots, variant, check_here);
}

// --- both sides ---

static bool is_storage(const struct transfer_rowing *rowing) {
  return rowing->worker->plan->storage != TRANSFER_NONE;
}

// Writes the contents of a new iteration to the place that the transfer reads.
static int put(struct transfer_rowing *rowing, uint32_t slots, uint32_t variant) {
  bool reads = rowing->load.op == WEFT_TRANSFER_READ;
  rowing->worker->iteration++;
  if (!reads)
    return each_block(rowing, slots, variant, fill_here);
  return is_storage(rowing) ? store(rowing, slots, variant) : each_area(rowing, slots, true);
}

// Compares the contents at the place that the transfer wrote.
static int look(struct transfer_rowing *rowing, uint32_t slots, uint32_t variant) {
  bool reads = rowing->load.op == WEFT_TRANSFER_READ;
  if (reads)
    return each_block(rowing, slots, variant, check_here);
  return is_storage(rowing) ? check_stored(rowing, slots, variant) : each_area(rowing, slots, false);
}

int transfer_check_begin(struct transfer_rowing *rowing) {
  bool reads = rowing->load.op == WEFT_TRANSFER_READ;
  const struct transfer_load *load = &rowing->load;
  int err = 0;
  if (is_storage(rowing) && reads) // everything that is read has to exist
    for (uint32_t variant = load->variants; variant-- > 0 && !err;)
      err = store(rowing, load->depth, variant);
  if (!err && rowing->worker->plan->config.check_consistency)
    err = put(rowing, load->depth, 0);
  return err;
}

// Moves each slot once more, untimed, at its place of the variant.
static int move_once(struct transfer_rowing *rowing, uint32_t variant) {
  for (uint32_t i = 0; i < rowing->num_lanes; i++) {
    for (uint32_t slot = 0; slot < rowing->load.depth; slot++)
      rowing->lanes[i].variant[slot] = variant;
    int err = transfer_lane_run(&rowing->lanes[i], rowing->load.depth);
    if (err)
      return err;
  }
  return 0;
}

static int check_round(struct transfer_rowing *rowing, uint32_t variant) {
  int err = put(rowing, rowing->load.depth, variant);
  if (!err)
    err = transfer_worker_step(rowing->worker, "put");
  if (!err)
    err = move_once(rowing, variant);
  if (!err)
    err = transfer_worker_step(rowing->worker, "moved again");
  return err ? err : look(rowing, rowing->load.depth, variant);
}

int transfer_check_end(struct transfer_rowing *rowing) {
  const struct transfer_load *load = &rowing->load;
  if (!rowing->worker->plan->config.check_consistency)
    return 0;
  uint32_t used = load->depth < load->iterations ? load->depth : load->iterations;
  // Blocks at random places overlap, so that only the further rounds know what each place should have.
  int err = load->variants == 1 ? look(rowing, used, 0) : 0;
  for (uint32_t round = 0; round < ROUNDS && !err; round++)
    err = check_round(rowing, round % load->variants);
  return err ? err : transfer_worker_step(rowing->worker, "checked");
}
