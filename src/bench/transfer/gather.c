// Computes the figures of one row from those of all workers. If there is one initiator, which is rank 0, all of its
// times are used. If there are several, each sends a few thousand evenly chosen times, since they go through the store.
// All initiators send the same number of times. Rank 0 does so too: with all of its times it would count for more than
// the others. Each also sends its least and its greatest time: otherwise one request of a million that took a second
// would hardly ever be seen.
#include "bench/transfer/gather.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SENT = 4096, MOST_SENT_BY_ALL = 16384, LEAST_SENT = 64 };

// --- what one worker reports ---

static uint32_t initiators(const struct transfer_worker *worker) {
  return transfer_pairs_initiators(&worker->pairs, worker->size);
}

static json_t *pack_times(const uint64_t *values, size_t count, size_t most) {
  size_t kept = count < most ? count : most;
  json_t *list = json_array();
  for (size_t i = 0; i < kept; i++)
    json_array_append_new(list, json_integer((json_int_t)values[figures_place(i, kept, count)]));
  return list;
}

static struct transfer_range range_of(const uint64_t *values, size_t count) {
  struct transfer_range range = {.least = count ? UINT64_MAX : 0};
  for (size_t i = 0; i < count; i++) {
    range.least = values[i] < range.least ? values[i] : range.least;
    range.most = values[i] > range.most ? values[i] : range.most;
  }
  return range;
}

static json_t *pack_range(const uint64_t *values, size_t count) {
  struct transfer_range range = range_of(values, count);
  return json_pack("[I, I]", (json_int_t)range.least, (json_int_t)range.most);
}

static json_t *pack_ranges(const struct transfer_times *times) {
  return json_pack("{s:o, s:o, s:o, s:o}", "latency", pack_range(times->latency, times->count), "post",
                   pack_range(times->post, times->num_post), "transfer", pack_range(times->transfer, times->num_post),
                   "prep", pack_range(times->prep, times->num_prep));
}

static json_t *pack(const struct transfer_worker *worker, const struct transfer_result *own) {
  size_t most = MOST_SENT_BY_ALL / initiators(worker);
  most = most > MOST_SENT ? MOST_SENT : most < LEAST_SENT ? LEAST_SENT : most;
  if (!own->initiates || initiators(worker) == 1)
    most = 0;
  return json_pack("{s:b, s:I, s:I, s:I, s:I, s:f, s:s, s:o, s:o, s:o, s:o, s:o}", "initiates", own->initiates, "begin",
                   (json_int_t)own->begin_ns + worker->sync.ahead_ns, "end",
                   (json_int_t)own->end_ns + worker->sync.ahead_ns, "iterations", (json_int_t)own->iterations, "bytes",
                   (json_int_t)own->bytes, "cpu", own->cpu_percent, "transport", own->transport, "latency",
                   pack_times(own->times.latency, own->times.count, most), "post",
                   pack_times(own->times.post, own->times.num_post, most), "transfer",
                   pack_times(own->times.transfer, own->times.num_post, most), "prep",
                   pack_times(own->times.prep, own->times.num_prep, most), "ranges", pack_ranges(&own->times));
}

// --- what all workers reported ---

static int64_t number(const json_t *said, const char *name) {
  return json_integer_value(json_object_get(said, name));
}

static int no_memory(void) {
  return fail(WEFT_ERR_NOMEM, "no memory for the times of all workers");
}

// Copies the times of the only initiator, which is this worker.
static int copy_times(uint64_t **values, size_t *count, const uint64_t *own, size_t num_own) {
  *values = malloc((num_own + 1) * sizeof **values);
  if (!*values)
    return no_memory();
  memcpy(*values, own, num_own * sizeof *own);
  *count = num_own;
  return 0;
}

int transfer_gather_merge(uint64_t **values, size_t *count, json_t *const *said, uint32_t size, const char *name) {
  size_t sum = 0, most = 0;
  *count = 0;
  for (uint32_t rank = 0; rank < size; rank++) {
    size_t own = json_array_size(json_object_get(said[rank], name));
    sum += own;
    most = own > most ? own : most;
  }
  *values = malloc((sum + 1) * sizeof **values);
  if (!*values)
    return no_memory();
  for (size_t i = 0; i < most; i++)
    for (uint32_t rank = 0; rank < size; rank++) {
      const json_t *list = json_object_get(said[rank], name);
      if (i < json_array_size(list))
        (*values)[(*count)++] = (uint64_t)json_integer_value(json_array_get(list, i));
    }
  return 0;
}

static int copy_own(struct transfer_times *all, const struct transfer_times *own) {
  size_t num_transfer;
  int err = copy_times(&all->latency, &all->count, own->latency, own->count);
  if (!err)
    err = copy_times(&all->transfer, &num_transfer, own->transfer, own->num_post);
  if (!err)
    err = copy_times(&all->post, &all->num_post, own->post, own->num_post);
  return err ? err : copy_times(&all->prep, &all->num_prep, own->prep, own->num_prep);
}

static int merge_all(struct transfer_times *all, json_t *const *said, uint32_t size) {
  size_t num_transfer = 0;
  int err = transfer_gather_merge(&all->latency, &all->count, said, size, "latency");
  if (!err)
    err = transfer_gather_merge(&all->transfer, &num_transfer, said, size, "transfer");
  if (!err)
    err = transfer_gather_merge(&all->post, &all->num_post, said, size, "post");
  if (!err && num_transfer != all->num_post)
    err = fail(WEFT_ERR_PROTOCOL, "the lists of times of a worker differ in length");
  return err ? err : transfer_gather_merge(&all->prep, &all->num_prep, said, size, "prep");
}

static void widen(struct transfer_range *range, bool first, const json_t *said, const char *name) {
  const json_t *one = json_object_get(json_object_get(said, "ranges"), name);
  uint64_t least = (uint64_t)json_integer_value(json_array_get(one, 0));
  uint64_t most = (uint64_t)json_integer_value(json_array_get(one, 1));
  range->least = first || least < range->least ? least : range->least;
  range->most = first || most > range->most ? most : range->most;
}

static void widen_all(struct transfer_gathered *all, bool first, const json_t *said) {
  widen(&all->latency, first, said, "latency");
  widen(&all->post, first, said, "post");
  widen(&all->transfer, first, said, "transfer");
  widen(&all->prep, first, said, "prep");
}

static void rate(struct transfer_gathered *all, uint32_t rank, const json_t *said) {
  double ns = (double)(number(said, "end") - number(said, "begin"));
  double gbps = ns > 0 ? (double)number(said, "iterations") * (double)number(said, "bytes") / ns : 0;
  if (all->fastest_gbps == 0 || gbps < all->slowest_gbps) {
    all->slowest_gbps = gbps;
    all->slowest = rank;
  }
  all->fastest_gbps = gbps > all->fastest_gbps ? gbps : all->fastest_gbps;
}

static struct transfer_window find_window(json_t *const *said, uint32_t size) {
  struct transfer_window window = TRANSFER_WINDOW_INIT;
  for (uint32_t i = 0; i < size; i++)
    if (json_is_true(json_object_get(said[i], "initiates")))
      transfer_window_add(&window, number(said[i], "begin"), number(said[i], "end"));
  return window;
}

static int take_all(struct transfer_worker *worker, const struct transfer_result *own, json_t *const *said,
                    struct transfer_gathered *all) {
  uint32_t targets = 0, movers = 0;
  for (uint32_t rank = 0; rank < worker->size; rank++) {
    double cpu = json_number_value(json_object_get(said[rank], "cpu"));
    if (!json_is_true(json_object_get(said[rank], "initiates"))) {
      all->target_cpu_percent += cpu;
      targets++;
      continue;
    }
    widen_all(all, movers++ == 0, said[rank]);
    all->cpu_percent += cpu;
    rate(all, rank, said[rank]);
  }
  all->cpu_percent /= movers > 0 ? movers : 1;
  all->target_cpu_percent /= targets > 0 ? targets : 1;
  return initiators(worker) == 1 ? copy_own(&all->times, &own->times) : merge_all(&all->times, said, worker->size);
}

// --- the window ---

// The number of iterations of this worker that ended in the window.
static uint64_t count_inside(const struct transfer_worker *worker, const struct transfer_result *own,
                             const struct transfer_window *window) {
  uint64_t inside = 0;
  if (own->blind) // the window is that of this worker alone
    return own->iterations;
  for (size_t i = 0; i < own->times.count; i++) {
    int64_t end = (int64_t)own->ends[i] + worker->sync.ahead_ns;
    inside += end > window->begin && end <= window->end;
  }
  return inside;
}

// More iterations do not help if a host has fewer processors than threads that post there. Then writes what does help.
// Returns whether this is so.
static bool advise_about_processors(const struct transfer_worker *worker, char *advice, size_t cap) {
  uint32_t each = worker->plan->config.num_threads;
  for (uint32_t rank = 0; worker->meet && rank < worker->size; rank++) {
    uint32_t threads = 0, processors = worker->others[rank].processors;
    for (uint32_t i = 0; i < worker->size; i++)
      if (transfer_pairs_initiates(&worker->pairs, i) && meet_same_machine(worker->meet, rank, i))
        threads += each;
    if (processors == 0 || threads <= processors)
      continue;
    snprintf(advice, cap, "%.64s has %u processor%s for %u threads of initiators, so want fewer there",
             meet_host(worker->meet, rank), processors, processors == 1 ? "" : "s", threads);
    return true;
  }
  return false;
}

static int measure_window(struct transfer_worker *worker, const struct transfer_result *own,
                          const struct transfer_window *window, json_t **said, struct transfer_gathered *all) {
  json_t *mine = json_integer((json_int_t)count_inside(worker, own, window));
  double requests = 0, bytes = 0, ns = transfer_window_ns(window);
  uint64_t fewest = UINT64_MAX;
  uint32_t group = worker->pairs.count / initiators(worker); // requests in one iteration
  json_t **inside = calloc(worker->size, sizeof(json_t *));
  int err = mine && inside ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the figures of all workers");
  if (!err && worker->size > 1 && window->initiators > 1)
    err = meet_all_gather(worker->meet, "window", mine, worker->plan->config.common.timeout_ms, inside);
  else if (!err)
    inside[worker->rank] = json_incref(mine);
  for (uint32_t rank = 0; inside && rank < worker->size; rank++) {
    uint64_t ended = (uint64_t)json_integer_value(inside[rank]);
    fewest = json_is_true(json_object_get(said[rank], "initiates")) && ended < fewest ? ended : fewest;
    requests += (double)ended * group;
    bytes += (double)ended * (double)number(said[rank], "bytes");
    json_decref(inside[rank]);
  }
  free(inside);
  json_decref(mine);
  if (err)
    return err;
  all->window_s = ns / 1e9;
  char advice[160];
  bool crowded = window->initiators > 1 && advise_about_processors(worker, advice, sizeof advice);
  bool holds = transfer_window_holds(window, fewest, crowded ? advice : NULL, all->held_up, sizeof all->held_up);
  all->again = !holds || transfer_window_is_narrow(window);
  all->gbps = ns > 0 ? bytes / ns : 0;
  all->per_second = ns > 0 ? requests / ns * 1e9 : 0;
  return 0;
}

// The transport of the first initiator, which is rank 0.
static void name_transport(struct transfer_gathered *all, const json_t *said) {
  const char *name = json_string_value(json_object_get(said, "transport"));
  snprintf(all->transport, sizeof all->transport, "%s", name ? name : "");
}

int transfer_gather(struct transfer_worker *worker, const struct transfer_result *own, struct transfer_gathered *out) {
  struct transfer_gathered all = {0};
  json_t *mine = pack(worker, own), **said = calloc(worker->size, sizeof(json_t *));
  int err = mine && said ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the figures of a worker");
  if (!err && worker->meet)
    err = meet_all_gather(worker->meet, "figures", mine, worker->plan->config.common.timeout_ms, said);
  else if (!err)
    said[0] = json_incref(mine);
  if (!err) {
    struct transfer_window window = find_window(said, worker->size);
    err = measure_window(worker, own, &window, said, &all);
  }
  if (!err && worker->rank == 0) {
    err = take_all(worker, own, said, &all);
    name_transport(&all, said[0]);
  }
  for (uint32_t rank = 0; said && rank < worker->size; rank++)
    json_decref(said[rank]);
  free(said);
  json_decref(mine);
  if (err)
    transfer_gathered_free(&all);
  else
    *out = all;
  return err;
}

void transfer_gathered_free(struct transfer_gathered *all) {
  free(all->times.latency);
  free(all->times.post);
  free(all->times.transfer);
  free(all->times.prep);
  *all = (struct transfer_gathered){0};
}
