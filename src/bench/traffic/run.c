// The timed loops, and the reports about them. A worker's report of a batch has two numbers and three lists of numbers:
//   "ns": how long the batch took on this worker
//   "clock_error_ns": by how much the difference of this worker's clock to that of rank 0 may be wrong
//   "runs": run, late, end, ...       for each run in which it started transfers: how late after the common start it
//                                     began, and when its last byte had arrived, both in ns from the start
//   "gaps": pattern, 0 before or 1 after, ns, ...
//   "pairs": pattern, pair, end, ...  for each pair that it started, in each run
#include "bench/traffic/run.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "base/time/clock.h"

enum {
  BATCH_NS = 500000000,
  EVERY_PAIR = UINT32_MAX,
  YIELD_NS = 20000,
  LOOK_NS = 1000000,
  GATHER_MS = 10000,
  MOST_NUMBERS = 30000
};

struct report {
  json_t *runs, *gaps, *pairs;
};

static void add(json_t *list, uint64_t value) {
  json_array_append_new(list, json_integer((json_int_t)value));
}

// --- one run ---

static bool is_of(const struct traffic_lane *lane, uint32_t pattern, uint32_t pair) {
  return lane->pattern == pattern && (pair == EVERY_PAIR || lane->pair == pair);
}

static int blame(struct traffic_worker *worker, const struct traffic_lane *lane, int err, const char *sentence) {
  return bench_sync_blame(&worker->sync, err, sentence, lane->other);
}

static int post(struct traffic_worker *worker, uint32_t pattern, uint32_t pair, uint32_t *posted) {
  *posted = 0;
  for (uint32_t i = 0; i < worker->num_lanes; i++) {
    struct traffic_lane *lane = &worker->lanes[i];
    if (!is_of(lane, pattern, pair))
      continue;
    int rc = weft_transfer_post(lane->transfer);
    if (rc != 0)
      return blame(worker, lane, rc, weft_last_error());
    lane->under_way = true;
    ++*posted;
  }
  return 0;
}

// Polls each transfer that is under way once. `*left` is the number of those still under way.
static int poll_all(struct traffic_worker *worker, uint32_t pattern, uint32_t pair, uint32_t *left) {
  for (uint32_t i = 0; i < worker->num_lanes; i++) {
    struct traffic_lane *lane = &worker->lanes[i];
    if (!lane->under_way || !is_of(lane, pattern, pair))
      continue;
    int rc = weft_transfer_poll(lane->transfer);
    if (rc == 1)
      continue;
    lane->under_way = false;
    if (rc != 0)
      return blame(worker, lane, rc, weft_transfer_error(lane->transfer));
    --*left;
  }
  return 0;
}

static int finish(struct traffic_worker *worker, uint32_t pattern, uint32_t pair, uint32_t left) {
  uint64_t begun = clock_ns(), looked = begun;
  while (left > 0) {
    uint32_t before = left;
    int rc = poll_all(worker, pattern, pair, &left);
    uint64_t now = clock_ns();
    if (rc == 0 && now - looked > LOOK_NS) {
      looked = now;
      rc = bench_sync_look(&worker->sync);
    }
    if (rc != 0)
      return rc;
    if (worker->sync.crowded && left == before && now - begun > YIELD_NS)
      sched_yield(); // another worker may need this processor before this one can go on
  }
  return 0;
}

// Reads when the last byte of each of this worker's transfers had arrived, and when the last byte of all had.
static int read_ends(struct traffic_worker *worker, uint32_t pattern, uint32_t pair, uint64_t start_ns, uint64_t *last,
                     struct report *report) {
  *last = 0;
  for (uint32_t i = 0; i < worker->num_lanes; i++) {
    struct traffic_lane *lane = &worker->lanes[i];
    struct weft_transfer_info info = WEFT_TRANSFER_INFO_INIT;
    if (!is_of(lane, pattern, pair))
      continue;
    int rc = weft_transfer_get_info(lane->transfer, &info);
    if (rc != 0)
      return rc;
    uint64_t took = info.end_ns > start_ns ? info.end_ns - start_ns : 0;
    *last = took > *last ? took : *last;
    add(report->pairs, lane->pattern);
    add(report->pairs, lane->pair);
    add(report->pairs, took);
  }
  return 0;
}

// Notifies the workers whose bytes this worker has moved, and waits for the workers that move its own bytes.
static int settle(struct traffic_worker *worker, uint32_t pattern, uint32_t pair, uint64_t run) {
  const struct traffic_pattern *p = &worker->config->plan->patterns[pattern];
  uint32_t rank = worker->sync.rank;
  int rc = 0;
  for (uint32_t i = 0; i < worker->num_lanes && rc == 0; i++)
    if (is_of(&worker->lanes[i], pattern, pair))
      rc = bench_sync_send_done(&worker->sync, run, worker->lanes[i].other);
  for (uint32_t i = 0; i < p->num_pairs && rc == 0; i++) {
    uint32_t starts = p->op == WEFT_TRANSFER_WRITE ? p->pairs[i].from : p->pairs[i].to;
    uint32_t waits = p->op == WEFT_TRANSFER_WRITE ? p->pairs[i].to : p->pairs[i].from;
    if (waits == rank && (pair == EVERY_PAIR || pair == i))
      rc = bench_sync_await_done(&worker->sync, run, starts);
  }
  return rc;
}

static int run_once(struct traffic_worker *worker, uint32_t pattern, uint32_t pair, uint32_t index,
                    struct report *report) {
  const struct traffic_part *part = &worker->parts[pattern];
  const struct traffic_pair *only = pair == EVERY_PAIR ? NULL : &worker->config->plan->patterns[pattern].pairs[pair];
  uint32_t two[2], count = part->count, posted = 0;
  uint64_t run = worker->run + index + 1, start = 0, last = 0;
  const uint32_t *ranks = part->ranks;
  if (only) {
    two[0] = only->from < only->to ? only->from : only->to;
    two[1] = only->from < only->to ? only->to : only->from;
    ranks = two;
    count = only->from == only->to ? 1 : 2;
    if (two[0] != worker->sync.rank && two[1] != worker->sync.rank)
      return 0;
  } else if (!part->mine) {
    return 0;
  }
  int rc = bench_sync_start(&worker->sync, run, ranks, count, &start);
  uint64_t begun = clock_ns();
  if (rc == 0)
    rc = post(worker, pattern, pair, &posted);
  if (rc == 0)
    rc = finish(worker, pattern, pair, posted);
  if (rc == 0 && posted > 0)
    rc = read_ends(worker, pattern, pair, start, &last, report);
  if (rc == 0)
    rc = settle(worker, pattern, pair, run);
  if (rc == 0 && posted > 0) {
    add(report->runs, index);
    add(report->runs, begun > start ? begun - start : 0);
    add(report->runs, last);
  }
  return rc;
}

// --- the bytes ---

// Writes the bytes that this worker sends in the next round, and waits until all workers have done so.
static int prepare(struct traffic_worker *worker, uint32_t first, uint32_t end) {
  const struct traffic_plan *plan = worker->config->plan;
  int rc = 0;
  if (!worker->config->check)
    return 0;
  worker->round++;
  for (uint32_t i = first; i < end; i++)
    for (uint32_t j = 0; j < plan->patterns[i].num_pairs && rc == 0; j++) {
      const struct traffic_pair *pair = &plan->patterns[i].pairs[j];
      if (pair->from != worker->sync.rank)
        continue;
      struct traffic_area area = traffic_memories_area(&worker->memories, &worker->layout, i, j, TRAFFIC_SENDS);
      rc = traffic_area_fill(&area, pair, traffic_stream(worker->config->seed, worker->round, i, pair));
    }
  return rc == 0 ? meet_barrier(worker->meet, "filled", GATHER_MS + 2 * worker->sync.timeout_ms) : rc;
}

// Checks the bytes that this worker has received in this round.
static int check(struct traffic_worker *worker, uint32_t first, uint32_t end, uint32_t only) {
  const struct traffic_plan *plan = worker->config->plan;
  int rc = 0;
  for (uint32_t i = first; worker->config->check && i < end; i++)
    for (uint32_t j = 0; j < plan->patterns[i].num_pairs && rc == 0; j++) {
      const struct traffic_pair *pair = &plan->patterns[i].pairs[j];
      if (pair->to != worker->sync.rank || (only != EVERY_PAIR && only != j))
        continue;
      struct traffic_area area = traffic_memories_area(&worker->memories, &worker->layout, i, j, TRAFFIC_RECEIVES);
      rc = traffic_area_check(&area, pair, traffic_stream(worker->config->seed, worker->round, i, pair));
      if (rc != 0)
        rc = fail_context(rc, "pattern %s", plan->patterns[i].name);
    }
  return rc;
}

// --- sequences ---

static int gap(struct traffic_worker *worker, uint32_t pattern, bool after, struct report *report) {
  const struct traffic_pattern *p = &worker->config->plan->patterns[pattern];
  double seconds = after ? p->after_s : p->before_s;
  uint64_t begun = clock_ns();
  if (seconds <= 0)
    return 0;
  int rc = bench_sync_sleep(&worker->sync, begun + (uint64_t)(seconds * 1e9));
  add(report->gaps, pattern);
  add(report->gaps, after);
  add(report->gaps, clock_ns() - begun);
  return rc;
}

static int run_sequence(struct traffic_worker *worker, uint32_t index, struct report *report) {
  const struct traffic_plan *plan = worker->config->plan;
  int rc = 0;
  for (uint32_t i = 0; i < plan->num_patterns && rc == 0; i++) {
    if (!worker->parts[i].mine)
      continue;
    rc = gap(worker, i, false, report);
    if (rc == 0)
      rc = run_once(worker, i, EVERY_PAIR, index * plan->num_patterns + i, report);
    if (rc == 0)
      rc = gap(worker, i, true, report);
  }
  return rc;
}

// The time of all gaps of one sequence.
static uint32_t gaps_ms(const struct traffic_plan *plan) {
  double seconds = 0;
  for (uint32_t i = 0; i < plan->num_patterns; i++)
    seconds += plan->patterns[i].before_s + plan->patterns[i].after_s;
  return seconds < 1e6 ? (uint32_t)(seconds * 1e3) + 1 : 1000000000u;
}

// --- batches ---

struct stage {
  enum traffic_stage stage;
  uint32_t pattern, pair;
  uint32_t runs;         // runs of the stage
  bool warms;            // a warm-up: no times are kept
  double *done, *total;  // units of work, for the progress
  traffic_take_fn *take; // NULL if this worker is not the reporter
  void *arg;
};

static int run_batch(struct traffic_worker *worker, const struct stage *stage, uint32_t count, struct report *report) {
  bool sequence = stage->stage == TRAFFIC_SEQUENCE;
  uint32_t first = sequence ? 0 : stage->pattern;
  uint32_t end = sequence ? worker->config->plan->num_patterns : stage->pattern + 1;
  int rc = 0;
  for (uint32_t i = 0; i < count && rc == 0; i++) {
    rc = prepare(worker, first, end);
    if (rc == 0)
      rc = sequence ? run_sequence(worker, i, report) : run_once(worker, stage->pattern, stage->pair, i, report);
    if (rc == 0)
      rc = check(worker, first, end, stage->pair);
  }
  worker->run += (uint64_t)count * (end - first);
  return rc;
}

// The longest time that a worker took. All workers get the same result.
static uint64_t longest(json_t *const *reports, uint32_t size) {
  uint64_t most = 1;
  for (uint32_t i = 0; i < size; i++) {
    json_int_t ns = json_integer_value(json_object_get(reports[i], "ns"));
    most = ns > (json_int_t)most ? (uint64_t)ns : most;
  }
  return most;
}

// A batch has as many runs as one value of the store has room for, but at least one.
static int explain_limit(const struct traffic_worker *worker, uint32_t patterns, int err) {
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", weft_last_error());
  return fail(err,
              "the times of one run of %u pattern%s, in which a worker starts up to %u transfers, are more than the "
              "store takes at once (%.200s): want fewer patterns in the file, or fewer workers or pairs",
              patterns, text_s(patterns), worker->most_lanes, why);
}

static int share(struct traffic_worker *worker, const struct stage *stage, uint32_t count, json_t *mine,
                 uint64_t *took_ns) {
  uint32_t size = worker->sync.size;
  json_t *reports[TRAFFIC_MAX_RANKS] = {NULL};
  uint64_t wait_limit = GATHER_MS + 2 * (uint64_t)worker->sync.timeout_ms + (uint64_t)count * worker->sync.start_ms;
  int rc =
      meet_all_gather(worker->meet, "batch", mine, wait_limit < INT32_MAX ? (uint32_t)wait_limit : INT32_MAX, reports);
  uint32_t each = stage->stage == TRAFFIC_SEQUENCE ? worker->config->plan->num_patterns : 1;
  if (rc == WEFT_ERR_LIMIT && !meet_lost(worker->meet, NULL, NULL, 0)) // otherwise another worker has said it
    rc = explain_limit(worker, each, rc);
  if (rc != 0)
    return rc;
  *took_ns = longest(reports, size);
  struct traffic_batch batch = {.stage = stage->stage,
                                .pattern = stage->pattern,
                                .pair = stage->pair,
                                .count = count * each,
                                .done = *stage->done / *stage->total,
                                .reports = reports};
  if (stage->take && !stage->warms)
    rc = stage->take(stage->arg, &batch);
  for (uint32_t i = 0; i < size; i++)
    json_decref(reports[i]);
  return rc;
}

// As many runs as take about half a second, or fewer if one value of the store has no room for all their numbers.
static uint32_t next_count(const struct traffic_worker *worker, const struct stage *stage, uint32_t count,
                           uint64_t took_ns) {
  uint64_t patterns = stage->stage == TRAFFIC_SEQUENCE ? worker->config->plan->num_patterns : 1;
  // For each run and its two gaps; for each pair.
  uint64_t most = MOST_NUMBERS / (9 * patterns + 3 * worker->most_lanes);
  uint64_t next = (uint64_t)count * BATCH_NS / took_ns;
  next = next < most ? next : most;
  return next < 1 ? 1 : (uint32_t)next;
}

// How long others may have to wait for this worker at the start of a pattern, since it may still run earlier patterns.
static uint32_t start_ms(const struct traffic_worker *worker, const struct stage *stage) {
  uint64_t ms = worker->sync.timeout_ms;
  if (stage->stage == TRAFFIC_SEQUENCE)
    ms = ms * worker->config->plan->num_patterns + gaps_ms(worker->config->plan);
  return ms < INT32_MAX ? (uint32_t)ms : INT32_MAX;
}

static int run_stage(struct traffic_worker *worker, const struct stage *stage) {
  uint32_t count = 1;
  int rc = 0;
  worker->sync.start_ms = start_ms(worker, stage);
  for (uint32_t left = stage->runs; left > 0 && rc == 0;) {
    struct report report = {.runs = json_array(), .gaps = json_array(), .pairs = json_array()};
    uint64_t begun = clock_ns(), took = 1;
    count = count < left ? count : left;
    left -= count;
    rc = bench_sync_compare(&worker->sync);
    if (rc == 0)
      rc = run_batch(worker, stage, count, &report);
    json_t *mine =
        json_pack("{s:I, s:I, s:o, s:o, s:o}", "ns", (json_int_t)(clock_ns() - begun), "clock_error_ns",
                  (json_int_t)worker->sync.error_ns, "runs", report.runs, "gaps", report.gaps, "pairs", report.pairs);
    if (rc == 0 && !mine)
      rc = fail(WEFT_ERR_NOMEM, "no memory for what was measured");
    *stage->done += count;
    if (rc == 0)
      rc = share(worker, stage, count, mine, &took);
    json_decref(mine);
    if (rc == 0)
      count = next_count(worker, stage, count, took);
  }
  return rc;
}

static int run_pairs(struct traffic_worker *worker, struct stage stage) {
  int rc = 0;
  stage.stage = TRAFFIC_PAIRS;
  stage.runs = worker->config->alone;
  for (uint32_t i = 0; i < worker->config->plan->patterns[stage.pattern].num_pairs && rc == 0; i++) {
    stage.pair = i;
    rc = run_stage(worker, &stage);
  }
  return rc;
}

static double units_of_a_repeat(const struct traffic_config *config) {
  double units = config->iterations;
  for (uint32_t i = 0; i < config->plan->num_patterns; i++) {
    double pairs = config->isolate_pairs ? config->plan->patterns[i].num_pairs : 0;
    units += config->warmup + config->alone * (1 + pairs);
  }
  return units;
}

int traffic_run_all(struct traffic_worker *worker, uint32_t repeat, traffic_take_fn *take, void *arg) {
  const struct traffic_config *config = worker->config;
  double units = units_of_a_repeat(config), done = units * repeat, total = units * config->options->repeat;
  int rc = 0;
  for (uint32_t i = 0; i < config->plan->num_patterns && rc == 0; i++) {
    struct stage stage = {.pattern = i, .pair = EVERY_PAIR, .done = &done, .total = &total, .take = take, .arg = arg};
    stage.warms = true;
    stage.runs = config->warmup;
    rc = run_stage(worker, &stage);
    stage.warms = false;
    stage.runs = config->alone;
    if (rc == 0)
      rc = run_stage(worker, &stage);
    if (rc == 0 && config->isolate_pairs)
      rc = run_pairs(worker, stage);
  }
  struct stage sequence = {.stage = TRAFFIC_SEQUENCE,
                           .pair = EVERY_PAIR,
                           .runs = config->iterations,
                           .done = &done,
                           .total = &total,
                           .take = take,
                           .arg = arg};
  return rc == 0 ? run_stage(worker, &sequence) : rc;
}
