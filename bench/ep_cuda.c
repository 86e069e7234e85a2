// Measures dispatch and combine on GPUs through weft/ep.h, with one process for each rank: the times of both halves and
// back to back, beside the bound from the rate at which the same GPUs store to each other; then what a SIGKILL and a
// join cost the ranks that go on.
// Usage: bench_ep_cuda [--json] [name=number...], names as in `options`. With hosts=2 and, for instance,
// WEFT_EP_TRANSPORT=nvlink, ranks behave as if they were on two hosts, and connect as such.
#include <cuda_runtime_api.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/ep_limits.h"
#include "base/time/clock.h"
#include "ep_cuda.h"
#include "support/gpu.h"
#include "support/values.h"

enum { SETTLE = 200, DEADLINE_MS = 60000, NO_GPU = 3, FAILED = 5 };

static struct ep_cuda_board *board;
static struct bench_store store;
static pid_t pids[BENCH_RANKS];

// --- processes ---

static _Noreturn void give_up(const char *why) {
  fprintf(stderr, "bench_ep_cuda: %s\n", why);
  bench_kill(pids, BENCH_RANKS);
  bench_store_stop(&store);
  exit(FAILED);
}

// Runs in a child: the parent must make no call of CUDA, so that its children may.
static int find_rate(void *arg) {
  (void)arg;
  uint32_t ranks = board->setup.ranks, used = (uint32_t)board->devices < ranks ? (uint32_t)board->devices : ranks;
  double rate = board->setup.rate;
  int error = board->setup.rate > 0 ? 0 : ep_cuda_rate((int)used, &rate);
  if (error != 0)
    fprintf(stderr, "bench_ep_cuda: stores between GPUs: %s\n", cudaGetErrorString((cudaError_t)error));
  // If several ranks share a GPU, each gets a part of the GPU's rate.
  board->rate = board->setup.rate > 0 ? rate : rate / ((ranks + used - 1) / used);
  return error != 0;
}

static int count_devices(void *arg) {
  (void)arg;
  board->devices = bench_count_gpus();
  return 0;
}

static int live(void *arg) {
  return ep_cuda_rank_main(board, (int32_t)((pid_t *)arg - pids));
}

static void start(uint32_t index) {
  pids[index] = bench_fork(live, &pids[index]);
}

// No rank ends before the parent asks it to.
static void watch(void) {
  for (uint32_t i = 0; i < BENCH_RANKS; i++)
    if (pids[i] > 0 && waitpid(pids[i], NULL, WNOHANG) != 0) {
      pids[i] = 0;
      give_up("a rank has ended before its time");
    }
}

static void await(bool (*reached)(uint32_t index), const char *what) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  for (uint32_t i = 0; i < BENCH_RANKS; i++)
    for (; pids[i] > 0 && !reached(i); poll(NULL, 0, 1)) {
      watch();
      if (clock_passed(deadline)) {
        fprintf(stderr, "bench_ep_cuda: rank %u: by the deadline there is no end of: ", i);
        give_up(what);
      }
    }
}

// --- reading the log ---

static uint32_t wanted_ranks;
static uint64_t from[BENCH_RANKS];

static const struct ep_cuda_pair *pair_of(uint32_t index, uint64_t number) {
  return &board->rank[index].log[number % EP_CUDA_LOG];
}

static bool has_settled(uint32_t index) {
  uint64_t pairs = board->rank[index].pairs;
  return pairs >= from[index] + SETTLE && pair_of(index, pairs - 1)->num_ranks == wanted_ranks &&
         pair_of(index, pairs - SETTLE)->num_ranks == wanted_ranks;
}

// Waits until every rank has run SETTLE pairs from now on in a view of so many ranks.
static void await_pairs(uint32_t num_ranks, const char *what) {
  wanted_ranks = num_ranks;
  for (uint32_t i = 0; i < BENCH_RANKS; i++)
    from[i] = board->rank[i].pairs;
  await(has_settled, what);
}

static bool is_measured(uint32_t index) {
  return board->rank[index].measured;
}

static bool is_open(uint32_t index) {
  return index != board->setup.ranks || board->rank[index].open;
}

struct gaps {
  double median, longest; // between the ends of pairs, ms
};

// The gaps between the pairs of a rank, as far as they overlap this time. Only the newest EP_CUDA_LOG / 2 pairs are
// read.
static struct gaps gaps_between(uint32_t index, uint64_t begin_ns, uint64_t end_ns) {
  static uint64_t gap[EP_CUDA_LOG];
  uint64_t pairs = board->rank[index].pairs, first = pairs > EP_CUDA_LOG / 2 ? pairs - EP_CUDA_LOG / 2 : 0;
  size_t count = 0;
  for (uint64_t i = first + 1; i < pairs; i++) {
    uint64_t before_ns = pair_of(index, i - 1)->end_ns, after_ns = pair_of(index, i)->end_ns;
    if (after_ns >= begin_ns && before_ns <= end_ns)
      gap[count++] = after_ns - before_ns;
  }
  struct bench_spread spread = bench_spread(gap, count, 1e6);
  return (struct gaps){spread.p50, spread.max};
}

static double ms_since(uint64_t ns, uint64_t begin_ns) {
  return ns > begin_ns ? (double)(ns - begin_ns) / 1e6 : 0;
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

// --- kill and join ---

// The worst value of all survivors.
static struct {
  double longest, gone, back; // ms
  bool listed;
} killed;

static void note_kill(uint32_t index, uint64_t kill_ns, uint64_t end_ns) {
  uint64_t gone_ns = 0, back_ns = 0, pairs = board->rank[index].pairs, i = pairs;
  bool listed = false;
  while (i > 0 && pairs - i < EP_CUDA_LOG / 2 && pair_of(index, i - 1)->end_ns >= kill_ns)
    i--;
  for (; i < pairs && back_ns == 0; i++) {
    const struct ep_cuda_pair *pair = pair_of(index, i);
    listed |= pair->listed;
    if (gone_ns == 0 && (pair->lost || pair->num_ranks < board->setup.ranks))
      gone_ns = pair->end_ns;
    if (pair->num_ranks < board->setup.ranks)
      back_ns = pair->end_ns;
  }
  killed.longest = larger(killed.longest, gaps_between(index, kill_ns, end_ns).longest);
  killed.gone = larger(killed.gone, ms_since(gone_ns, kill_ns));
  killed.back = larger(killed.back, ms_since(back_ns, kill_ns));
  killed.listed &= listed;
}

static void kill_last(void) {
  uint32_t survivors = board->setup.ranks - 1;
  await_pairs(board->setup.ranks, "pairs of all ranks");
  pid_t victim = pids[survivors];
  pids[survivors] = 0;
  uint64_t kill_ns = clock_ns();
  kill(victim, SIGKILL);
  await_pairs(survivors, "pairs without the rank that was killed");
  killed.listed = true;
  for (uint32_t i = 0; i < survivors; i++)
    note_kill(i, kill_ns, clock_ns());
  bench_kill(&victim, 1); // the kernel takes long to release the GPU; waiting for that before would let the log run on
}

// The worst value of all survivors, for each join.
enum { JOINS = 100 };
static struct {
  double active[JOINS], first[JOINS]; // from the begin of weft_ep_connect, ms
  // Of pairs just before the join, ms: the largest median of a survivor, and the longest pair.
  double median[JOINS], quiet[JOINS];
  double alone[JOINS];                 // the longest pair before the join, in medians
  double longest[JOINS], ratio[JOINS]; // the longest pair, in ms and in medians
  // The longest pair before there is a view with the joiner, and the longest in that view, both in medians.
  double before[JOINS], meeting[JOINS];
  // The longest stall of a thread that only reads the clock, ms: before the join, and during it.
  double still[JOINS], stalled[JOINS];
} joined;

static void note_join(uint32_t n, uint32_t index, struct gaps quiet) {
  uint32_t joiner = board->setup.ranks;
  uint64_t begin_ns = board->rank[joiner].connect_ns, end_ns = board->rank[joiner].first_ns;
  uint64_t pairs = board->rank[index].pairs, met = pairs;
  while (met > 1 && pairs - met < EP_CUDA_LOG / 2 && pair_of(index, met - 1)->num_ranks == joiner)
    met--;
  uint64_t before_ns = pair_of(index, met - 1)->end_ns; // the end of the last pair without the joiner
  double longest = gaps_between(index, begin_ns, end_ns).longest;
  joined.median[n] = larger(joined.median[n], quiet.median);
  joined.quiet[n] = larger(joined.quiet[n], quiet.longest);
  joined.alone[n] = larger(joined.alone[n], quiet.longest / quiet.median);
  joined.longest[n] = larger(joined.longest[n], longest);
  joined.ratio[n] = larger(joined.ratio[n], longest / quiet.median);
  joined.before[n] = larger(joined.before[n], gaps_between(index, begin_ns, before_ns - 1).longest / quiet.median);
  joined.meeting[n] = larger(joined.meeting[n], gaps_between(index, before_ns + 1, end_ns).longest / quiet.median);
}

static void join(uint32_t n) {
  uint32_t joiner = board->setup.ranks, survivors = joiner - 1;
  struct gaps quiet[BENCH_RANKS];
  board->join = board->leave = false;
  board->rank[joiner].open = false;
  board->rank[joiner].pairs = board->rank[joiner].first_ns = 0;
  start(joiner);
  await(is_open, "opening a rank that is to join");
  pid_t pid = pids[joiner];
  pids[joiner] = 0; // it has no pairs yet
  uint64_t quiet_ns = clock_ns();
  await_pairs(survivors, "pairs beside a rank that is to join");
  pids[joiner] = pid;
  for (uint32_t i = 0; i < survivors; i++)
    quiet[i] = gaps_between(i, quiet_ns, clock_ns());
  joined.still[n] = ep_cuda_clock_longest(quiet_ns, clock_ns());
  board->join = true;
  await_pairs(board->setup.ranks, "pairs with the rank that joined");
  joined.active[n] = ms_since(board->rank[joiner].active_ns, board->rank[joiner].connect_ns);
  joined.first[n] = ms_since(board->rank[joiner].first_ns, board->rank[joiner].connect_ns);
  joined.stalled[n] = ep_cuda_clock_longest(board->rank[joiner].connect_ns, board->rank[joiner].first_ns);
  for (uint32_t i = 0; i < survivors; i++)
    note_join(n, i, quiet[i]);
}

// Lets the joiner leave, so that it can join again.
static void leave(void) {
  uint32_t joiner = board->setup.ranks;
  board->leave = true;
  if (!bench_reap(pids[joiner]))
    give_up("the rank that joined did not leave well");
  pids[joiner] = 0;
}

// --- the report ---

struct spread {
  double median, least, most;
};

// The spread over all ranks of the number at `offset` in their figures.
static struct spread over_ranks(size_t offset) {
  double value[BENCH_RANKS];
  uint32_t count = board->setup.ranks;
  for (uint32_t i = 0; i < count; i++)
    memcpy(&value[i], (const char *)&board->rank[i].figures + offset, sizeof *value);
  bench_sort(value, count);
  double median = count % 2 ? value[count / 2] : (value[count / 2 - 1] + value[count / 2]) / 2;
  return (struct spread){median, value[0], value[count - 1]};
}

#define OVER_RANKS(field) over_ranks(offsetof(struct ep_cuda_figures, field))

static double median_of(const double *values) {
  double sorted[JOINS];
  memcpy(sorted, values, sizeof sorted);
  return bench_median(sorted, board->setup.joins);
}

static double most_of(const double *values) {
  double most = 0;
  for (uint32_t i = 0; i < board->setup.joins; i++)
    most = larger(most, values[i]);
  return most;
}

static uint32_t count_over(const double *values, double limit) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < board->setup.joins; i++)
    count += values[i] > limit;
  return count;
}

#define MEDIAN(field) median_of(joined.field)
#define MOST(field)   most_of(joined.field)
#define OVER(field)   count_over(joined.field, 2) // the mark: twice the median

// `wire`, `logical`: bytes of one rank; `bound`: for the rank that sends most, us.
static void report_time(const char *name, const char *what, struct spread us, double wire, double logical,
                        double bound) {
  double wire_rate = wire / us.median / 1e3, logical_rate = logical / us.median / 1e3;
  if (board->setup.json)
    printf("\"%s\": {\"us\": %.2f, \"min_us\": %.2f, \"max_us\": %.2f, \"wire_gbs\": %.1f, \"logical_gbs\": %.1f, "
           "\"bound_us\": %.2f, \"bound_ratio\": %.3f}, ",
           name, us.median, us.least, us.most, wire_rate, logical_rate, bound, bound / us.median);
  else
    printf("%-24s %8.1f %8.1f %8.1f %8.0f %9.0f %8.1f %7.2f\n", what, us.median, us.least, us.most, wire_rate,
           logical_rate, bound, bound / us.median);
}

static void report_times(void) {
  struct spread dispatch = OVER_RANKS(dispatch_wire), combine = OVER_RANKS(combine_wire);
  double dispatch_logical = OVER_RANKS(dispatch_logical).median, combine_logical = OVER_RANKS(combine_logical).median;
  double both = dispatch.median + combine.median, both_logical = dispatch_logical + combine_logical;
  double dispatch_bound = dispatch.most / board->rate / 1e3, combine_bound = combine.most / board->rate / 1e3;
  if (!board->setup.json)
    printf("%-24s %8s %8s %8s %8s %9s %8s %7s\n", "", "us", "least", "most", "wire", "logical", "bound", "ratio");
  report_time("dispatch", "dispatch", OVER_RANKS(dispatch), dispatch.median, dispatch_logical, dispatch_bound);
  report_time("combine", "combine", OVER_RANKS(combine), combine.median, combine_logical, combine_bound);
  report_time("eager", "both, back to back", OVER_RANKS(eager), both, both_logical, dispatch_bound + combine_bound);
  report_time("graph", "both, in a graph", OVER_RANKS(graph), both, both_logical, dispatch_bound + combine_bound);
  if (board->setup.json)
    printf("\"dispatch_wire_bytes\": %.0f, \"combine_wire_bytes\": %.0f, ", dispatch.median, combine.median);
}

static void report_json(void) {
  const struct ep_cuda_setup *s = &board->setup;
  printf("{\"ranks\": %u, \"devices\": %d, \"tokens\": %u, \"hidden\": %u, \"topk\": %u, \"experts\": %u, "
         "\"dtype\": %u, \"combine_dtype\": %u, \"columns\": %u, \"late_weights\": %u, \"origins\": %u, "
         "\"iterations\": %u, \"in_graph\": %u, \"store_gbs\": %.1f, ",
         s->ranks, board->devices, s->tokens, s->hidden, s->topk, s->experts, s->dtype, s->combine_dtype, s->columns,
         s->late_weights, s->origins, s->iterations, s->in_graph, board->rate);
  report_times();
  printf("\"memory_mb\": %.1f, "
         "\"kill\": {\"longest_pair_ms\": %.3f, \"gone_ms\": %.3f, \"back_ms\": %.3f, \"listed\": %s}, "
         "\"join\": {\"count\": %u, \"active_ms\": %.3f, \"first_pair_ms\": %.3f, \"median_pair_ms\": %.4f, "
         "\"quiet_longest_ms\": %.4f, \"longest_pair_ms\": %.4f, \"ratio\": %.2f, \"ratio_max\": %.2f, "
         "\"before\": %.2f, \"before_max\": %.2f, \"meeting\": %.2f, \"meeting_max\": %.2f, "
         "\"quiet\": %.2f, \"quiet_max\": %.2f, \"over\": %u, \"over_before\": %u, \"over_quiet\": %u, "
         "\"clock_ms\": %.4f, \"clock_ms_max\": %.4f, \"clock_quiet_ms\": %.4f, \"clock_quiet_ms_max\": %.4f}}\n",
         OVER_RANKS(memory).most / 1e6, killed.longest, killed.gone, killed.back, killed.listed ? "true" : "false",
         s->joins, MEDIAN(active), MEDIAN(first), MEDIAN(median), MEDIAN(quiet), MEDIAN(longest), MEDIAN(ratio),
         MOST(ratio), MEDIAN(before), MOST(before), MEDIAN(meeting), MOST(meeting), MEDIAN(alone), MOST(alone),
         OVER(ratio), OVER(before), OVER(alone), MEDIAN(stalled), MOST(stalled), MEDIAN(still), MOST(still));
}

static void report_table(void) {
  const struct ep_cuda_setup *s = &board->setup;
  printf("%u ranks on %d GPUs, %u tokens x %u, top-%u, %u experts per rank, dtype %u, combine_dtype %u%s%s%s; medians "
         "over ranks.\n"
         "wire and logical in GB/s; bound: us for the wire bytes at %.0f GB/s, stores to all others at once.\n\n",
         s->ranks, board->devices, s->tokens, s->hidden, s->topk, s->experts, s->dtype, s->combine_dtype,
         s->columns ? ", scales by columns" : "", s->late_weights ? ", weights with the combine" : "",
         s->origins ? ", origins of rows" : "", board->rate);
  report_times();
  printf("\nmemory: %.1f MB per rank\n", OVER_RANKS(memory).most / 1e6);
  printf("kill:   longest pair %.2f ms; known after %.2f ms, view without it after %.2f ms; losses %s\n",
         killed.longest, killed.gone, killed.back, killed.listed ? "listed" : "not listed by everybody");
  printf(
      "join:   active after %.2f ms, first pair after %.2f ms; the others' longest pair %.3f ms, %.2f medians\n"
      "        (median %.3f ms, longest without a join %.3f ms; medians of %u joins). At most %.2f medians:\n"
      "        %.2f (at most %.2f) before the joiner's first operation, %.2f (%.2f) with it\n"
      "        without a join %.2f (%.2f). Above twice the median: %u of %u joins, %u before the joiner's first\n"
      "        operation; %u without a join. A thread that only reads the clock stood for %.3f ms (%.3f), %.3f (%.3f)\n"
      "        without a join\n",
      MEDIAN(active), MEDIAN(first), MEDIAN(longest), MEDIAN(ratio), MEDIAN(median), MEDIAN(quiet), s->joins,
      MOST(ratio), MEDIAN(before), MOST(before), MEDIAN(meeting), MOST(meeting), MEDIAN(alone), MOST(alone),
      OVER(ratio), s->joins, OVER(before), OVER(alone), MEDIAN(stalled), MOST(stalled), MEDIAN(still), MOST(still));
}

// --- the program ---

static void finish(void) {
  bool well = true;
  board->mark = EP_CUDA_END;
  for (uint32_t i = 0; i < BENCH_RANKS; i++)
    if (pids[i] > 0) {
      well &= bench_reap(pids[i]);
      pids[i] = 0;
    }
  if (!well)
    give_up("a rank did not end well");
  bench_store_stop(&store);
}

struct option {
  const char *name;
  uint32_t *value, low, high;
};

static bool take(const struct option *option, const char *argument) {
  size_t size = strlen(option->name);
  char *end;
  if (strncmp(argument, option->name, size) != 0 || argument[size] != '=' || argument[size + 1] == '\0')
    return false;
  errno = 0;
  unsigned long value = strtoul(argument + size + 1, &end, 10);
  if (*end || errno != 0 || value < option->low || value > option->high) {
    fprintf(stderr, "bench_ep_cuda: %s: want a number from %u to %u\n", argument, option->low, option->high);
    exit(2);
  }
  *option->value = (uint32_t)value;
  return true;
}

static void parse(int argc, char **argv) {
  struct ep_cuda_setup *s = &board->setup;
  *s = (struct ep_cuda_setup){.ranks = 4,
                              .tokens = 128,
                              .hidden = 7168,
                              .topk = 8,
                              .experts = 72,
                              .dtype = WEFT_EP_FP8,
                              .combine_dtype = WEFT_EP_COMBINE_BF16,
                              .iterations = 200,
                              .in_graph = 1,
                              .joins = 1,
                              .hosts = 1};
  const struct option options[] = {{"ranks", &s->ranks, 2, BENCH_RANKS - 1},
                                   {"tokens", &s->tokens, 1, EP_MAX_TOKENS},
                                   {"hidden", &s->hidden, WEFT_EP_BLOCK, EP_MAX_HIDDEN},
                                   {"topk", &s->topk, 1, EP_MAX_TOPK},
                                   {"experts", &s->experts, 1, EP_MAX_EXPERTS},
                                   {"dtype", &s->dtype, WEFT_EP_BF16, WEFT_EP_FP8_UE8M0},
                                   {"combine_dtype", &s->combine_dtype, WEFT_EP_COMBINE_BF16, WEFT_EP_COMBINE_LOGFMT10},
                                   {"columns", &s->columns, 0, 1},
                                   {"late_weights", &s->late_weights, 0, 1},
                                   {"origins", &s->origins, 0, 1},
                                   {"iterations", &s->iterations, 1, 10000},
                                   {"in_graph", &s->in_graph, 1, 100},
                                   {"rate", &s->rate, 0, 100000},
                                   {"joins", &s->joins, 1, JOINS},
                                   {"hosts", &s->hosts, 1, BENCH_RANKS},
                                   {"processors", &s->processors, 0, 1000}};
  size_t count = sizeof options / sizeof *options;
  for (int i = 1; i < argc; i++) {
    bool known = strcmp(argv[i], "--json") == 0;
    s->json |= known;
    for (size_t k = 0; k < count && !known; k++)
      known = take(&options[k], argv[i]);
    if (known)
      continue;
    fprintf(stderr, "usage: bench_ep_cuda [--json]");
    for (size_t k = 0; k < count; k++)
      fprintf(stderr, " [%s=%u]", options[k].name, *options[k].value);
    fprintf(stderr, "\n");
    exit(2);
  }
}

static void run_child(int (*body)(void *arg), const char *failure) {
  if (!bench_reap(bench_fork(body, NULL)))
    give_up(failure);
}

int main(int argc, char **argv) {
  board = bench_shared(sizeof *board);
  parse(argc, argv);
  run_child(count_devices, "the GPUs could not be counted");
  if (board->devices == 0) {
    fprintf(stderr, "bench_ep_cuda: no GPU here, or no driver for one\n");
    return NO_GPU;
  }
  run_child(find_rate, "the rate of stores between GPUs could not be measured");
  bench_store_start(&store, BENCH_EMBEDDED);
  snprintf(board->url, sizeof board->url, "%s", store.url);
  for (uint32_t i = 0; i < board->setup.ranks; i++)
    start(i);
  await(is_measured, "the measurements");
  kill_last();
  if (ep_cuda_clock_start() != 0)
    give_up("there is no thread that reads the clock");
  for (uint32_t n = 0; n < board->setup.joins; n++) {
    if (n > 0)
      leave();
    join(n);
  }
  finish();
  if (board->setup.json)
    report_json();
  else
    report_table();
  return killed.listed ? 0 : FAILED;
}
