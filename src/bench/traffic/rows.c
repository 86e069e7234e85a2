// Makes the rows: one for each pattern, and in JSON always one for each worker and each pair of it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "bench/traffic/book.h"

enum { MOST_SAMPLED = 64, MOST_NAMES = 8 };

static int no_memory(void) {
  return fail(WEFT_ERR_NOMEM, "no memory for the results");
}

static double mean_us(const struct traffic_series *series) {
  double sum = 0;
  for (size_t i = 0; i < series->count; i++)
    sum += (double)series->ns[i];
  return series->count ? sum / (double)series->count / 1e3 : 0;
}

static double gbps(uint64_t bytes, double us) {
  return us > 0 ? (double)bytes / us / 1e3 : 0;
}

static bool add_times(struct figures_row *row, const char *name, const struct traffic_series *series) {
  return series->count == 0 || figures_add_times(row, name, series->ns, series->count);
}

// --- the bound ---

static const char *fact(const struct traffic_worker *worker, uint32_t rank, const char *name) {
  const char *text = json_string_value(json_object_get(json_array_get(worker->facts, rank), name));
  return text ? text : "";
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_name(const char *names[MOST_NAMES], size_t *count, const char *name) {
  bool known = !name || !*name || *count == MOST_NAMES;
  for (size_t i = 0; i < *count && !known; i++)
    known = strcmp(names[i], name) == 0;
  if (!known)
    names[(*count)++] = name;
}

// The transports that carry a pattern: one name, or several with '+' between them, in alphabetical order.
static void name_transports(const struct traffic_worker *worker, uint32_t pattern, char *out, size_t cap) {
  const char *names[MOST_NAMES];
  size_t count = 0, used = 0;
  for (uint32_t rank = 0; rank < worker->sync.size; rank++) {
    const json_t *via = json_object_get(json_array_get(worker->facts, rank), "via");
    const json_t *list = json_array_get(via, pattern);
    for (size_t i = 0; i < json_array_size(list); i++)
      add_name(names, &count, json_string_value(json_array_get(list, i)));
  }
  qsort(names, count, sizeof *names, compare_names);
  *out = '\0';
  for (size_t i = 0; i < count && used < cap; i++)
    used += (size_t)snprintf(out + used, cap - used, "%s%s", i ? "+" : "", names[i]);
}

// Counts of the pairs of a pattern.
struct ways {
  uint32_t local, remote; // within a host, between hosts
  uint32_t same_gpu;
  const struct traffic_pair *first;
};

static struct ways look_at_ways(const struct traffic_worker *worker, const struct traffic_pattern *pattern) {
  struct ways ways = {.first = &pattern->pairs[0]};
  for (uint32_t i = 0; i < pattern->num_pairs; i++) {
    const struct traffic_pair *pair = &pattern->pairs[i];
    bool local = meet_same_machine(worker->meet, pair->from, pair->to);
    const char *gpu = fact(worker, pair->from, "gpu");
    ways.local += local;
    ways.remote += !local;
    ways.same_gpu += *gpu && strcmp(gpu, fact(worker, pair->to, "gpu")) == 0;
  }
  return ways;
}

static uint32_t gpu_of(const struct traffic_worker *worker, uint32_t rank) {
  json_int_t index = json_integer_value(json_object_get(json_array_get(worker->facts, rank), "gpu_index"));
  return index > 0 ? (uint32_t)index : 0;
}

static uint32_t least(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

// A pattern whose pairs have different kinds of routes has no known bound. The memory of the host bounds all pairs
// together. A GPU or a NIC bounds what its workers send or receive, so the bound is multiplied by the number of senders
// or of receivers, whichever is less.
static bool find_bound(const struct traffic_worker *worker, uint32_t index, struct limits *limits,
                       const char *transport, struct limits_bound *bound) {
  const struct traffic_pattern *pattern = &worker->config->plan->patterns[index];
  struct ways ways = look_at_ways(worker, pattern);
  bool cuda = traffic_layout_memory(&worker->layout, index) == TRAFFIC_CUDA;
  if (!limits || strchr(transport, '+') || (ways.local > 0 && ways.remote > 0) || (cuda && ways.same_gpu > 0))
    return false;
  struct limits_route route = {.transport = transport, .pairs = pattern->num_pairs};
  // What a pair copies again and again stays in a cache that is large enough.
  if (!cuda && ways.remote == 0)
    route.working_set = 2 * traffic_pattern_bytes(pattern) / pattern->num_pairs;
  route.from.memory = route.to.memory = cuda ? LIMITS_CUDA : LIMITS_HOST;
  route.from.gpu = gpu_of(worker, ways.first->from);
  route.to.gpu = gpu_of(worker, ways.first->to);
  if (ways.remote > 0) {
    route.from.host = "the sender's host"; // names differ here, since two machines may have the same name
    route.to.host = "the receiver's host";
  }
  limits_route_bound(limits, &route, bound);
  if (bound->gbps > 0 && (cuda || ways.remote > 0))
    bound->gbps *= least(traffic_pattern_senders(pattern), traffic_pattern_receivers(pattern));
  return bound->gbps > 0;
}

// Notes what the network library uses between the reporter and some worker on another host, or on the same one if the
// pattern has no pair between hosts.
static void note_uses(const struct traffic_worker *worker, uint32_t index, const char *transport,
                      struct bench_output *output, struct figures *figures) {
  bool cuda = traffic_layout_memory(&worker->layout, index) == TRAFFIC_CUDA;
  bool far = look_at_ways(worker, &worker->config->plan->patterns[index]).remote > 0;
  struct limits_route route = {.transport = transport};
  route.from.memory = route.to.memory = cuda ? LIMITS_CUDA : LIMITS_HOST;
  route.to.host = far ? "another host" : NULL;
  for (uint32_t rank = 0; rank < worker->sync.size; rank++) {
    struct weft_peer_info info = WEFT_PEER_INFO_INIT;
    if (rank == worker->reporter || meet_same_machine(worker->meet, worker->reporter, rank) == far ||
        weft_agent_peer(worker->agent, worker->sync.peers[rank].peer, &info) != 0 || !info.uses[0])
      continue;
    bench_output_uses(output, figures, info.uses, &route);
    return;
  }
}

// Writes the bound beside the bandwidths of a row, in the sequence and alone. The first bandwidth above the bound makes
// the row refused.
static int judge(struct figures *figures, struct figures_row *row, const struct limits_bound *bound,
                 const struct traffic_page *page) {
  const struct {
    const char *name;
    const struct traffic_series *series;
  } judged[] = {{"bandwidth", &page->sequence}, {"alone_bandwidth", &page->alone}};
  for (size_t i = 0; i < sizeof judged / sizeof *judged; i++) {
    struct figure *bandwidth = (struct figure *)figures_find(row, judged[i].name);
    if (!bandwidth)
      continue;
    struct limits_claim claim = {
        .gbps = bandwidth->value, .window_s = mean_us(judged[i].series) / 1e6, .bound = *bound};
    bandwidth->bound = bound->gbps;
    snprintf(bandwidth->bound_name, sizeof bandwidth->bound_name, "%s", bound->name);
    if (!row->refused[0] && limits_refuse(&claim, row->refused, sizeof row->refused))
      figures->passed = false;
  }
  if (row->refused[0])
    figures_withdraw_rates(row);
  return figures_add_bound(figures, bound->name, bound->gbps, bound->measured, bound->detail);
}

// --- rows ---

static json_t *pattern_keys(const struct traffic_worker *worker, uint32_t index, const char *transport) {
  const struct traffic_pattern *pattern = &worker->config->plan->patterns[index];
  struct ways ways = look_at_ways(worker, pattern);
  uint64_t pieces = 0;
  for (uint32_t i = 0; i < pattern->num_pairs; i++)
    pieces += traffic_pair_pieces(&pattern->pairs[i]);
  json_t *keys = json_pack("{s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "step", (json_int_t)index, "pattern",
                           pattern->name, "op", pattern->op == WEFT_TRANSFER_READ ? "READ" : "WRITE", "memory",
                           traffic_memory_names[traffic_layout_memory(&worker->layout, index)], "transport", transport,
                           "senders", (json_int_t)traffic_pattern_senders(pattern), "receivers",
                           (json_int_t)traffic_pattern_receivers(pattern), "pairs", (json_int_t)pattern->num_pairs,
                           "pieces", (json_int_t)pieces, "bytes", (json_int_t)traffic_pattern_bytes(pattern));
  if (keys && ways.same_gpu > 0) // such a pair copies within a GPU's memory, and uses no link
    json_object_set_new(keys, "same_gpu_pairs", json_integer(ways.same_gpu));
  return keys;
}

static void name_slowest(const struct traffic_worker *worker, const struct traffic_page *page, char *out, size_t cap) {
  uint32_t most = 0;
  for (uint32_t rank = 1; rank < worker->sync.size; rank++)
    most = page->slowest[rank] > page->slowest[most] ? rank : most;
  if (page->slowest[most] > 0)
    snprintf(out, cap, "worker %u on %s, in %u of %zu", most, meet_host(worker->meet, most), page->slowest[most],
             page->sequence.count);
}

static double mean_pair_gbps(const struct traffic_pattern *pattern, const struct traffic_series *seen) {
  double sum = 0;
  uint32_t count = 0;
  for (uint32_t i = 0; i < pattern->num_pairs; i++) {
    if (seen[i].count == 0)
      continue;
    sum += gbps(pattern->pairs[i].bytes, mean_us(&seen[i]));
    count++;
  }
  return count ? sum / count : 0;
}

static bool add_pattern_figures(struct figures_row *row, const struct traffic_pattern *pattern,
                                const struct traffic_page *page) {
  uint64_t bytes = traffic_pattern_bytes(pattern);
  double together = mean_us(&page->sequence), alone = mean_us(&page->alone);
  bool well = add_times(row, "latency", &page->sequence);
  if (well && together > 0)
    well = figures_add(row, "bandwidth", "GB/s", FIGURE_HIGHER, gbps(bytes, together)) &&
           figures_add(row, "pair_bandwidth", "GB/s", FIGURE_HIGHER, mean_pair_gbps(pattern, page->pairs));
  if (well && alone > 0)
    well = add_times(row, "alone_latency", &page->alone) &&
           figures_add(row, "alone_bandwidth", "GB/s", FIGURE_HIGHER, gbps(bytes, alone));
  if (well && alone > 0 && together > 0)
    well = figures_add(row, "slowdown", "percent", FIGURE_LOWER, (together / alone - 1) * 100);
  return well && add_times(row, "start_skew", &page->late) && add_times(row, "gap_before", &page->gaps[0]) &&
         add_times(row, "gap_after", &page->gaps[1]);
}

struct writer {
  struct traffic_book *book;
  struct figures *figures;
  struct bench_output *output;
  struct limits *limits;
  uint32_t repeat;
};

static int pattern_row(struct writer *to, uint32_t index) {
  const struct traffic_worker *worker = to->book->worker;
  const struct traffic_page *page = &to->book->pages[index];
  const struct traffic_pattern *pattern = &worker->config->plan->patterns[index];
  struct limits_bound bound;
  char transport[64];
  name_transports(worker, index, transport, sizeof transport);
  json_t *keys = pattern_keys(worker, index, transport);
  struct figures_row *row = keys ? figures_add_row(to->figures, keys, to->repeat) : NULL;
  json_decref(keys);
  if (!row || !add_pattern_figures(row, pattern, page))
    return no_memory();
  name_slowest(worker, page, row->slowest, sizeof row->slowest);
  int rc = 0;
  note_uses(worker, index, transport, to->output, to->figures);
  if (find_bound(worker, index, to->limits, transport, &bound))
    rc = judge(to->figures, row, &bound, page);
  bench_output_row(to->output, to->figures, row);
  return rc;
}

// The bytes of the transfers that a worker starts: what it sends, or with READ what it receives.
static uint64_t started_bytes(const struct traffic_pattern *pattern, uint32_t rank) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < pattern->num_pairs; i++) {
    const struct traffic_pair *pair = &pattern->pairs[i];
    bytes += (pattern->op == WEFT_TRANSFER_WRITE ? pair->from : pair->to) == rank ? pair->bytes : 0;
  }
  return bytes;
}

static int worker_row(struct writer *to, uint32_t index, uint32_t rank) {
  const struct traffic_worker *worker = to->book->worker;
  const struct traffic_pattern *pattern = &worker->config->plan->patterns[index];
  const struct traffic_series *ends = &to->book->pages[index].ends[rank];
  uint64_t bytes = started_bytes(pattern, rank);
  json_t *keys = json_pack("{s:I, s:s, s:I, s:s, s:I}", "step", (json_int_t)index, "pattern", pattern->name, "rank",
                           (json_int_t)rank, "host", meet_host(worker->meet, rank), "bytes", (json_int_t)bytes);
  struct figures_row *row = keys ? figures_add_row(to->figures, keys, to->repeat) : NULL;
  json_decref(keys);
  if (!row || !add_times(row, "latency", ends) ||
      !figures_add(row, "bandwidth", "GB/s", FIGURE_HIGHER, gbps(bytes, mean_us(ends))))
    return no_memory();
  if (worker->config->show_workers)
    bench_output_row(to->output, to->figures, row);
  return 0;
}

// Samples are kept only if there are few pairs: otherwise this row would be as large as all others together.
static bool add_pair(struct figures_row *row, const char *latency, const char *bandwidth, uint64_t bytes,
                     const struct traffic_series *seen, bool few) {
  if (seen->count == 0)
    return true;
  struct figure *figure = figures_add_times(row, latency, seen->ns, seen->count);
  if (figure && !few) {
    json_decref(figure->samples);
    figure->samples = NULL;
  }
  return figure && figures_add(row, bandwidth, "GB/s", FIGURE_HIGHER, gbps(bytes, mean_us(seen)));
}

static int pair_row(struct writer *to, uint32_t index, uint32_t number) {
  const struct traffic_worker *worker = to->book->worker;
  const struct traffic_page *page = &to->book->pages[index];
  const struct traffic_pattern *pattern = &worker->config->plan->patterns[index];
  const struct traffic_pair *pair = &pattern->pairs[number];
  json_t *keys = json_pack("{s:I, s:s, s:I, s:I, s:I, s:I}", "step", (json_int_t)index, "pattern", pattern->name,
                           "from", (json_int_t)pair->from, "to", (json_int_t)pair->to, "pieces",
                           (json_int_t)traffic_pair_pieces(pair), "bytes", (json_int_t)pair->bytes);
  struct figures_row *row = keys ? figures_add_row(to->figures, keys, to->repeat) : NULL;
  json_decref(keys);
  bool few = pattern->num_pairs <= MOST_SAMPLED;
  if (!row || !add_pair(row, "latency", "bandwidth", pair->bytes, &page->pairs[number], few) ||
      !add_pair(row, "alone_latency", "alone_bandwidth", pair->bytes, &page->isolated[number], few))
    return no_memory();
  if (worker->config->show_pairs)
    bench_output_row(to->output, to->figures, row);
  return 0;
}

static void empty(struct traffic_book *book, uint32_t index) {
  struct traffic_page *page = &book->pages[index];
  uint32_t pairs = book->worker->config->plan->patterns[index].num_pairs, size = book->worker->sync.size;
  page->alone.count = page->sequence.count = page->late.count = page->gaps[0].count = page->gaps[1].count = 0;
  for (uint32_t rank = 0; rank < size; rank++)
    page->ends[rank].count = 0;
  memset(page->slowest, 0, size * sizeof *page->slowest);
  for (uint32_t i = 0; i < pairs; i++)
    page->pairs[i].count = page->isolated[i].count = 0;
}

int traffic_book_rows(struct traffic_book *book, struct figures *figures, struct bench_output *output,
                      struct limits *limits, uint32_t repeat) {
  struct writer to = {.book = book, .figures = figures, .output = output, .limits = limits, .repeat = repeat};
  const struct traffic_plan *plan = book->worker->config->plan;
  int rc = 0;
  for (uint32_t i = 0; i < plan->num_patterns && rc == 0; i++)
    if (book->pages[i].sequence.count + book->pages[i].alone.count > 0)
      rc = pattern_row(&to, i);
  for (uint32_t i = 0; i < plan->num_patterns && rc == 0; i++) {
    const struct traffic_page *page = &book->pages[i];
    for (uint32_t rank = 0; rank < book->worker->sync.size && rc == 0; rank++)
      if (page->ends[rank].count > 0)
        rc = worker_row(&to, i, rank);
    for (uint32_t j = 0; j < plan->patterns[i].num_pairs && rc == 0; j++)
      if (page->pairs[j].count + page->isolated[j].count > 0)
        rc = pair_row(&to, i, j);
    empty(book, i);
  }
  return rc;
}
