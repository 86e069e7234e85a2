// The rows, their bounds, and the tables.
#include "bench/transfer/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/signal/stop.h"
#include "base/time/clock.h"
#include "bench/transfer/table.h"

// The keys that are columns of Weft's own table.
static const char *const columns[] = {"bytes", "batch", "backend", "transport", NULL};
static const char *const shown[] = {"latency", "bandwidth", "messages", "cpu", NULL};

// --- begin ---

static bool to_stdout(const char *path) {
  return path && strcmp(path, "-") == 0;
}

int transfer_report_begin(struct transfer_report *report, struct transfer_call *call,
                          const struct transfer_plan *plan) {
  struct bench_output *output = &call->output;
  *report = (struct transfer_report){.call = call, .plan = plan, .begin_ns = clock_ns()};
  report->tables = !to_stdout(output->json) && !to_stdout(output->csv);
  int err = figures_begin(&report->figures, "transfer");
  if (err)
    return err;
  json_object_update(report->figures.settings, (json_t *)call->settings);
  bench_progress_begin(&report->progress, call->config->common.quiet);
  if (report->tables && !(report->own = open_memstream(&report->own_text, &report->own_size)))
    err = fail(WEFT_ERR_NOMEM, "no memory for a table");
  output->out = report->own;
  output->columns = columns;
  output->figures = shown;
  output->progress = &report->progress;
  if (!err)
    err = limits_open(&report->limits);
  if (!err)
    err = bench_output_begin(output, &report->figures);
  report->opened = !err;
  return err;
}

// `worker` is NULL if there are no workers.
static void list_hosts(struct transfer_report *report, const struct transfer_worker *worker) {
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  for (uint32_t rank = 0; rank < (worker ? worker->size : 1); rank++) {
    const char *host = worker && worker->meet ? meet_host(worker->meet, rank) : name;
    bool there = false;
    for (size_t i = 0; i < json_array_size(report->figures.hosts); i++)
      there |= strcmp(json_string_value(json_array_get(report->figures.hosts, i)), host) == 0;
    if (!there)
      json_array_append_new(report->figures.hosts, json_string(host));
  }
}

void transfer_report_head(struct transfer_report *report, const struct transfer_worker *worker) {
  list_hosts(report, worker);
  if (!report->tables)
    return;
  transfer_table_settings(stdout, report->call->command, report->call->settings);
  transfer_table_header(stdout);
}

// --- a row ---

struct ends {
  char initiator[32], target[32];
  const struct transfer_remote *there; // NULL: the target is storage
  bool same_gpu;
};

static struct ends find_ends(const struct transfer_worker *worker) {
  struct ends ends = {0};
  const struct transfer_pair *pair = &worker->pairs.list[0];
  transfer_buffer_name(&worker->buffers[0], ends.initiator, sizeof ends.initiator);
  if (worker->plan->storage != TRANSFER_NONE) {
    snprintf(ends.target, sizeof ends.target, "%s", worker->plan->storage == TRANSFER_FILES ? "file" : "object");
    return ends;
  }
  ends.there = &worker->others[pair->target.rank].buffers[pair->target.buffer];
  snprintf(ends.target, sizeof ends.target, "%s", ends.there->memory);
  for (uint32_t i = 0; i < worker->pairs.count; i++) {
    pair = &worker->pairs.list[i];
    const char *a = worker->others[pair->initiator.rank].buffers[pair->initiator.buffer].gpu;
    const char *b = worker->others[pair->target.rank].buffers[pair->target.buffer].gpu;
    ends.same_gpu |= *a && strcmp(a, b) == 0;
  }
  return ends;
}

static json_t *make_keys(const struct transfer_worker *worker, const struct transfer_row *row,
                         const struct transfer_gathered *all, const struct ends *ends) {
  const struct transfer_config *config = &worker->plan->config;
  json_t *keys = json_pack(
      "{s:s, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i}", "op", transfer_op_names[config->op_type], "bytes",
      (json_int_t)row->block, "batch", (json_int_t)row->batch, "scheme", transfer_scheme_names[config->scheme],
      "backend", row->backend->name, "transport", all->transport, "initiator_memory", ends->initiator, "target_memory",
      ends->target, "threads", config->num_threads, "depth", config->pipeline_depth, "workers", worker->size);
  if (keys && ends->there) { // with MG two workers have all of these devices
    json_object_set_new(keys, "initiators", json_integer(config->num_initiator_dev));
    json_object_set_new(keys, "targets", json_integer(config->num_target_dev));
  }
  return keys;
}

// `host` is NULL if both ends are on one machine.
static struct limits_end bound_end(const struct transfer_worker *worker, const char *memory, const char *host) {
  struct limits_end end = {.memory = LIMITS_HOST, .host = host};
  if (strncmp(memory, "cuda:", 5) == 0) {
    end.memory = LIMITS_CUDA;
    end.gpu = (uint32_t)strtoul(memory + 5, NULL, 10);
  } else if (strcmp(memory, "file") == 0) {
    end.memory = LIMITS_FILE;
    end.path = worker->stored.places[0].path;
  } else if (strcmp(memory, "object") == 0) {
    end.memory = LIMITS_OBJECT;
    end.host = NULL;
  }
  return end;
}

static bool is_cached(const struct transfer_worker *worker, const struct transfer_row *row) {
  long page = sysconf(_SC_PAGESIZE);
  return worker->plan->storage == TRANSFER_FILES &&
         (!worker->stored.direct || row->block % (uint64_t)page != 0 ||
          worker->plan->config.randomize_location_mode == TRANSFER_BYTE_ALIGNED);
}

// --- its bound ---

typedef bool same_fn(const struct transfer_worker *worker, const struct transfer_end *a, const struct transfer_end *b);

static bool same_machine(const struct transfer_worker *worker, const struct transfer_end *a,
                         const struct transfer_end *b) {
  return meet_same_machine(worker->meet, a->rank, b->rank);
}

static bool same_buffer(const struct transfer_worker *worker, const struct transfer_end *a,
                        const struct transfer_end *b) {
  (void)worker;
  return a->rank == b->rank && a->buffer == b->buffer;
}

// How many different ends the initiators have, or the targets, where `same` says which two count as one.
static uint32_t count_ends(const struct transfer_worker *worker, bool targets, same_fn *same) {
  const struct transfer_pair *list = worker->pairs.list;
  uint32_t count = 0;
  for (uint32_t i = 0; i < worker->pairs.count; i++) {
    bool known = false;
    for (uint32_t j = 0; j < i && !known; j++)
      known = targets ? same(worker, &list[i].target, &list[j].target)
                      : same(worker, &list[i].initiator, &list[j].initiator);
    count += !known;
  }
  return count;
}

static uint32_t least_ends(const struct transfer_worker *worker, same_fn *same) {
  uint32_t initiators = count_ends(worker, false, same), targets = count_ends(worker, true, same);
  return initiators < targets ? initiators : targets;
}

// A bound is for one route, and a figure is for all pairs. The memory of a machine bounds all its pairs together. A NIC
// or a GPU bounds the pairs that end there, so the bound is multiplied by the number of them on the side that has
// fewer. `spread`: each pair of GPUs may have its own link, or share one with others; so a figure up to so many times
// above the bound can be true.
struct way {
  bool between, known; // between two machines; all pairs have the same kind of route
  uint32_t times, spread;
};

static struct way find_way(const struct transfer_worker *worker, const struct ends *ends) {
  struct way way = {.known = true, .times = 1, .spread = 1};
  bool initiator = strncmp(ends->initiator, "cuda:", 5) == 0, target = strncmp(ends->target, "cuda:", 5) == 0;
  uint32_t between = 0, count = worker->pairs.count;
  if (!ends->there)
    return way;
  for (uint32_t i = 0; i < count; i++)
    between += !same_machine(worker, &worker->pairs.list[i].initiator, &worker->pairs.list[i].target);
  way.between = between > 0;
  way.known = between == 0 || between == count;
  if (way.between || (!initiator && !target))
    way.times = least_ends(worker, same_machine);
  else
    way.times = initiator && target ? least_ends(worker, same_buffer) : count_ends(worker, target, same_buffer);
  if (!way.between && (initiator || target))
    way.spread = count / way.times;
  return way;
}

static struct limits_route find_route(const struct transfer_worker *worker, const struct transfer_row *row,
                                      const struct transfer_gathered *all, const struct ends *ends,
                                      const struct way *way) {
  const struct transfer_config *config = &worker->plan->config;
  struct limits_end here = bound_end(worker, ends->initiator, way->between ? "the initiators' host" : NULL);
  struct limits_end there = bound_end(worker, ends->target, way->between ? "the targets' host" : NULL);
  bool writes = config->op_type == WEFT_TRANSFER_WRITE;
  return (struct limits_route){
      .from = writes ? here : there,
      .to = writes ? there : here,
      .transport = all->transport,
      .devices = strcmp(config->device_list, "all") == 0 ? NULL : config->device_list,
      .pairs = worker->pairs.count,
      .working_set = 2 * row->block * row->batch * config->num_threads * config->pipeline_depth,
  };
}

static void find_bound(struct transfer_report *report, const struct limits_route *route, const struct way *way,
                       struct limits_bound *bound) {
  limits_route_bound(report->limits, route, bound);
  if (!way->known)
    bound->gbps = -1;
  if (bound->gbps <= 0 || way->times == 1)
    return;
  char detail[sizeof bound->detail];
  snprintf(detail, sizeof detail, "%u times %.4g GB/s, %.200s", way->times, bound->gbps, bound->detail);
  memcpy(bound->detail, detail, sizeof detail);
  bound->gbps *= way->times;
}

// Notes what the network library of the first pair uses: rank 0 is its initiator.
static void note_uses(struct transfer_report *report, const struct transfer_worker *worker,
                      const struct limits_route *route, const struct ends *ends) {
  struct weft_peer_info info = WEFT_PEER_INFO_INIT;
  if (!ends->there ||
      weft_agent_peer(worker->agent, worker->sync.peers[worker->pairs.list[0].target.rank].peer, &info) != 0)
    return;
  bench_output_uses(&report->call->output, &report->figures, info.uses, route);
}

static bool add_times(struct figures_row *to, const char *name, const uint64_t *times, size_t count,
                      const struct transfer_range *range) {
  struct figure *figure = figures_add_times(to, name, times, count);
  if (figure && count > 0) {
    figure->min = (double)range->least / 1e3;
    figure->max = (double)range->most / 1e3;
  }
  return figure != NULL;
}

static int add_figures(struct figures_row *to, const struct transfer_gathered *all, const struct limits_bound *bound,
                       bool targets) {
  const struct transfer_times *times = &all->times;
  bool made = add_times(to, "latency", times->latency, times->count, &all->latency) &&
              add_times(to, "prep", times->prep, times->num_prep, &all->prep) &&
              add_times(to, "post", times->post, times->num_post, &all->post) &&
              add_times(to, "transfer", times->transfer, times->num_post, &all->transfer);
  struct figure *bandwidth = made ? figures_add(to, "bandwidth", "GB/s", FIGURE_HIGHER, all->gbps) : NULL;
  if (!bandwidth)
    return WEFT_ERR_NOMEM;
  bandwidth->bound = bound->gbps;
  snprintf(bandwidth->bound_name, sizeof bandwidth->bound_name, "%s", bound->gbps >= 0 ? bound->name : "");
  made = figures_add(to, "messages", "1/s", FIGURE_HIGHER, all->per_second) &&
         figures_add(to, "cpu", "percent", FIGURE_LOWER, all->cpu_percent) &&
         (!targets || figures_add(to, "target_cpu", "percent", FIGURE_LOWER, all->target_cpu_percent));
  return made ? 0 : WEFT_ERR_NOMEM;
}

// Writes why the row is refused, and which rank was the slowest.
static void judge(struct figures_row *to, const struct transfer_worker *worker, const struct transfer_gathered *all,
                  const struct limits_claim *claim) {
  if (*all->held_up)
    snprintf(to->refused, sizeof to->refused, "%s", all->held_up);
  else
    limits_refuse(claim, to->refused, sizeof to->refused);
  if (to->refused[0])
    figures_withdraw_rates(to);
  if (all->slowest_gbps < all->fastest_gbps)
    snprintf(to->slowest, sizeof to->slowest, "rank %u on %s, %.3g GB/s of its own (the fastest: %.3g)", all->slowest,
             worker->meet ? meet_host(worker->meet, all->slowest) : "this host", all->slowest_gbps, all->fastest_gbps);
}

static void write_line(const struct transfer_row *row, uint32_t initiators, const struct figures_row *from,
                       const struct transfer_gathered *all) {
  const struct figure *prep = figures_find(from, "prep"), *post = figures_find(from, "post"),
                      *transfer = figures_find(from, "transfer");
  // The definition of nixlbench's table: the time divided by the blocks of one initiator, over all its threads, targets
  // and devices.
  double each_us = all->gbps > 0 ? initiators * (double)row->block / all->gbps / 1e3 : 0;
  struct transfer_line line = {.block = row->block,
                               .batch = row->batch,
                               .bandwidth = all->gbps,
                               .latency = each_us,
                               .prep = prep->value,
                               .prep_p99 = prep->p99,
                               .post = post->value,
                               .post_p99 = post->p99,
                               .transfer = transfer->value,
                               .transfer_p99 = transfer->p99,
                               .refused = from->refused[0] != '\0'};
  transfer_table_line(stdout, &line);
}

int transfer_report_row(struct transfer_report *report, const struct transfer_worker *worker,
                        const struct transfer_row *row, const struct transfer_gathered *all) {
  struct ends ends = find_ends(worker);
  struct way way = find_way(worker, &ends);
  struct limits_bound bound = {0};
  struct limits_route route = find_route(worker, row, all, &ends, &way);
  find_bound(report, &route, &way, &bound);
  note_uses(report, worker, &route, &ends);
  json_t *keys = make_keys(worker, row, all, &ends);
  struct figures_row *to = keys ? figures_add_row(&report->figures, keys, row->run) : NULL;
  json_decref(keys);
  int err = to ? add_figures(to, all, &bound, ends.there != NULL) : WEFT_ERR_NOMEM;
  if (!err && bound.gbps >= 0)
    err = figures_add_bound(&report->figures, bound.name, bound.gbps, bound.measured, bound.detail);
  if (err)
    return fail(err, "no memory for the figures");
  struct limits_claim claim = {.gbps = all->gbps,
                               .window_s = all->window_s,
                               .same_gpu = ends.same_gpu,
                               .cached = is_cached(worker, row),
                               .bound = bound};
  claim.bound.gbps *= way.spread;
  judge(to, worker, all, &claim);
  report->figures.elapsed_s = (double)(clock_ns() - report->begin_ns) / 1e9;
  bench_progress_hide(&report->progress);
  if (report->tables)
    write_line(row, transfer_pairs_initiators(&worker->pairs, worker->size), to, all);
  bench_output_row(&report->call->output, &report->figures, to);
  return 0;
}

// --- end ---

// Prints below the ten columns what has no room in them.
static void print_own(struct transfer_report *report) {
  if (!report->own)
    return;
  fclose(report->own);
  if (report->figures.num_rows > 0 && report->own_text) {
    for (int i = 0; i < 160; i++)
      putchar('-');
    printf("\n\n%s", report->own_text);
    printf("\nBounds: %s\n", limits_origin(report->limits));
  }
  free(report->own_text);
}

int transfer_report_end(struct transfer_report *report, int err, bool *refused) {
  struct figures *figures = &report->figures;
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  bench_progress_hide(&report->progress);
  figures->elapsed_s = (double)(clock_ns() - report->begin_ns) / 1e9;
  figures->complete = err == 0;
  *refused = bench_output_refused(&report->call->output);
  figures->passed = err == 0 && !*refused;
  if (err == WEFT_ERR_CANCELED)
    snprintf(figures->cut_short, sizeof figures->cut_short, "%.*s", FIGURES_TEXT - 1, stop_came() ? stop_name() : why);
  else
    snprintf(figures->error, sizeof figures->error, "%.*s", FIGURES_TEXT - 1, why);
  if (report->opened && json_array_size(figures->hosts) == 0)
    list_hosts(report, NULL);
  int written = report->opened ? bench_output_end(&report->call->output, figures) : 0;
  char failed[FAIL_DETAIL_SIZE];
  snprintf(failed, sizeof failed, "%s", written ? weft_last_error() : "");
  if (report->tables)
    print_own(report);
  limits_close(report->limits);
  figures_free(figures);
  if (written)
    fail(written, "%s", failed);
  return bench_output_result(&report->call->output, err, why, written);
}
