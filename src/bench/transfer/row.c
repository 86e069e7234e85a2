// A row on one worker: contents, warm-up, the timed loop of each thread, and the checks, in step with the other
// workers.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/signal/stop.h"
#include "base/time/ticks.h"
#include "bench/transfer/row.h"

// --- places ---

// The places between two workers: all places of a pair lie in the pair's areas of the two buffers, at equal offsets.
static void place_in_pair(const struct transfer_worker *worker, const struct transfer_load *load, uint64_t offset,
                          uint32_t member, struct transfer_block *block) {
  const struct transfer_config *config = &worker->plan->config;
  const struct transfer_pair *pair = &worker->pairs.list[worker->mine[member]];
  const struct transfer_remote *there = &worker->others[pair->target.rank].buffers[pair->target.buffer];
  uint64_t area = load->block * load->batch * config->num_threads * load->depth;
  block->buffer = (struct transfer_buffer *)&worker->buffers[pair->initiator.buffer];
  block->offset = pair->initiator_area * area + offset;
  block->peer = worker->sync.peers[pair->target.rank].peer;
  block->region = there->region;
  block->address = there->address + pair->target_area * area + offset;
  block->stream = worker->mine[member];
  block->at = offset;
}

static void place(void *arg, uint32_t thread, uint32_t slot, uint32_t member, uint32_t variant, uint64_t number,
                  struct transfer_block *block) {
  struct transfer_rowing *rowing = arg;
  const struct transfer_load *load = &rowing->load;
  uint64_t offset = (((uint64_t)thread * load->depth + slot) * load->batch + number) * load->block;
  if (rowing->worker->plan->storage == TRANSFER_NONE) {
    place_in_pair(rowing->worker, load, offset, member, block);
    return;
  }
  block->buffer = &rowing->worker->buffers[0];
  block->offset = offset;
  transfer_stored_place(&rowing->worker->stored, load, thread, slot, variant, number, block);
}

static bool somebody_is_lost(void *arg) {
  struct transfer_rowing *rowing = arg;
  return rowing->worker->meet && meet_lost(rowing->worker->meet, NULL, NULL, 0);
}

// The number of places that a slot takes in turn. All of them are filled before they are read, so large blocks have
// few.
static uint32_t variants_of(const struct transfer_config *config, const struct transfer_row *row) {
  enum { MOST_BYTES = 256 << 20 };
  uint64_t fit = MOST_BYTES / (row->block * row->batch * config->num_threads * config->pipeline_depth);
  if (config->randomize_location_mode == TRANSFER_FIXED || fit == 0)
    return 1;
  return fit < TRANSFER_VARIANTS ? (uint32_t)fit : TRANSFER_VARIANTS;
}

static void set_up(struct transfer_rowing *rowing, struct transfer_worker *worker, const struct transfer_row *row) {
  const struct transfer_config *config = &worker->plan->config;
  *rowing = (struct transfer_rowing){.worker = worker, .row = row};
  rowing->load = (struct transfer_load){
      .agent = worker->agent,
      .op = config->op_type,
      .transport = row->backend->transport,
      .block = row->block,
      .batch = row->batch,
      .group = worker->plan->storage == TRANSFER_NONE ? worker->num_mine : 1,
      .depth = config->pipeline_depth,
      .iterations = transfer_share(worker->plan, worker->plan->iterations, row->block),
      .warmup = transfer_share(worker->plan, worker->plan->warmup, row->block),
      .variants = variants_of(config, row),
      .recreate = config->recreate_xfer || config->reregister_mem,
      .prepared = config->prepared_xfer,
      .reregister = worker->buffers,
      .num_reregister = config->reregister_mem ? worker->num_buffers : 0,
      .timeout_ms = config->common.timeout_ms,
      .place = place,
      .ended = somebody_is_lost,
      .arg = rowing,
  };
  rowing->initiates = transfer_pairs_initiates(&worker->pairs, worker->rank);
  rowing->only_initiator = rowing->initiates;
  for (uint32_t rank = 0; rank < worker->size; rank++)
    rowing->only_initiator &= rank == worker->rank || !transfer_pairs_initiates(&worker->pairs, rank);
}

// --- threads ---

struct team {
  struct transfer_rowing *rowing;
  pthread_mutex_t gate; // the main thread holds it until all threads are started, or one could not be
  pthread_barrier_t warm, start;
  bool called_off; // the main thread writes it with the gate held, and between the two barriers
};

struct mover {
  struct team *team;
  struct transfer_lane *lane;
  pthread_t thread;
};

static bool is_whole(struct team *team) {
  pthread_mutex_lock(&team->gate);
  bool whole = !team->called_off;
  pthread_mutex_unlock(&team->gate);
  return whole;
}

static void *move(void *arg) {
  struct mover *mover = arg;
  struct team *team = mover->team;
  const struct transfer_load *load = &team->rowing->load;
  if (!is_whole(team))
    return NULL;
  int err = load->warmup > 0 ? transfer_lane_run(mover->lane, load->warmup) : 0;
  pthread_barrier_wait(&team->warm);
  pthread_barrier_wait(&team->start);
  if (!err && !team->called_off)
    transfer_lane_run(mover->lane, load->iterations);
  return NULL;
}

// The window begins at the same time on all workers. What happened before, such as the start of threads, is outside.
static int start(struct transfer_rowing *rowing) {
  struct transfer_worker *worker = rowing->worker;
  int err = stop_check();
  if (!err && worker->meet)
    err = transfer_worker_start(worker);
  getrusage(RUSAGE_SELF, &rowing->before);
  rowing->start_ns = clock_ns();
  return err;
}

static int lane_error(struct transfer_rowing *rowing) {
  for (uint32_t i = 0; i < rowing->num_lanes; i++)
    if (rowing->lanes[i].err)
      return fail(rowing->lanes[i].err, "%s", rowing->lanes[i].why);
  return 0;
}

static int run_alone(struct transfer_rowing *rowing) {
  const struct transfer_load *load = &rowing->load;
  int err = load->warmup > 0 ? transfer_lane_run(&rowing->lanes[0], load->warmup) : 0;
  if (!err)
    err = start(rowing);
  if (!err)
    err = transfer_lane_run(&rowing->lanes[0], load->iterations);
  // With several initiators each end has to be timed, to know which requests ended in the window of all.
  if (!err && transfer_lane_is_brief(&rowing->lanes[0]) && rowing->only_initiator)
    err = transfer_lane_rate(&rowing->lanes[0], load->iterations);
  return err;
}

// Starts all threads or none: if one were missing, no thread would pass the barriers.
static int start_team(struct team *team, struct mover *movers, uint32_t count) {
  uint32_t started = 0;
  int err = 0;
  pthread_mutex_lock(&team->gate);
  for (; started < count; started++) {
    movers[started] = (struct mover){.team = team, .lane = &team->rowing->lanes[started]};
    int error = pthread_create(&movers[started].thread, NULL, move, &movers[started]);
    if (error) {
      err = fail_thread(error, "a thread of --num_threads");
      break;
    }
  }
  team->called_off = err != 0;
  pthread_mutex_unlock(&team->gate);
  for (uint32_t i = 0; err && i < started; i++)
    pthread_join(movers[i].thread, NULL);
  return err ? fail_context(err, "%u of %u threads run", started, count) : 0;
}

static int run_team(struct transfer_rowing *rowing) {
  struct team team = {.rowing = rowing, .gate = PTHREAD_MUTEX_INITIALIZER};
  struct mover movers[TRANSFER_MAX_THREADS];
  uint32_t count = rowing->num_lanes;
  pthread_barrier_init(&team.warm, NULL, count + 1);
  pthread_barrier_init(&team.start, NULL, count + 1);
  int err = start_team(&team, movers, count);
  if (!err) {
    pthread_barrier_wait(&team.warm);
    err = lane_error(rowing);
    if (!err)
      err = start(rowing);
    team.called_off = err != 0;
    pthread_barrier_wait(&team.start);
    for (uint32_t i = 0; i < count; i++)
      pthread_join(movers[i].thread, NULL);
    err = err ? err : lane_error(rowing);
  }
  pthread_barrier_destroy(&team.warm);
  pthread_barrier_destroy(&team.start);
  pthread_mutex_destroy(&team.gate);
  return err;
}

// --- the row ---

static int open_lanes(struct transfer_rowing *rowing) {
  uint32_t count = rowing->worker->plan->config.num_threads;
  rowing->lanes = calloc(count, sizeof *rowing->lanes);
  if (!rowing->lanes)
    return fail(WEFT_ERR_NOMEM, "no memory for %u threads", count);
  int err = 0;
  for (; rowing->num_lanes < count && !err; rowing->num_lanes += !err)
    err = transfer_lane_open(&rowing->lanes[rowing->num_lanes], &rowing->load, rowing->num_lanes);
  return err;
}

static void close_lanes(struct transfer_rowing *rowing) {
  for (uint32_t i = 0; i < rowing->num_lanes; i++)
    transfer_lane_close(&rowing->lanes[i]);
  free(rowing->lanes);
}

static double processor_us(const struct rusage *used) {
  return (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) * 1e6 +
         (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec);
}

static void note_used(struct transfer_rowing *rowing, bool now) {
  struct rusage after;
  if (!now)
    return;
  getrusage(RUSAGE_SELF, &after);
  rowing->cpu_us = processor_us(&after) - processor_us(&rowing->before);
  rowing->wall_ns = clock_ns() - rowing->start_ns;
}

static int timed(struct transfer_rowing *rowing) {
  int err;
  if (!rowing->initiates)
    err = start(rowing);
  else
    err = rowing->num_lanes == 1 ? run_alone(rowing) : run_team(rowing);
  note_used(rowing, rowing->initiates); // a target's window ends when that of all workers does
  if (!err)
    err = transfer_worker_step(rowing->worker, "moved");
  note_used(rowing, !rowing->initiates);
  return err;
}

int transfer_row_run(struct transfer_worker *worker, const struct transfer_row *row, struct transfer_result *result) {
  struct transfer_rowing rowing;
  set_up(&rowing, worker, row);
  int err = rowing.initiates ? open_lanes(&rowing) : 0;
  if (!err)
    err = transfer_check_begin(&rowing);
  if (!err)
    err = transfer_worker_step(worker, "ready");
  if (!err)
    err = timed(&rowing);
  if (!err)
    err = transfer_result_take(&rowing, result);
  if (!err) {
    err = transfer_check_end(&rowing);
    if (err)
      transfer_result_free(result);
  }
  close_lanes(&rowing);
  return err;
}
