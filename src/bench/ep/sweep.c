// Comma lists of sizes, types and skews, and the points that they make.
#include <stdlib.h>
#include <string.h>

#include "base/ep_limits.h"
#include "base/fail.h"
#include "base/text/text.h"
#include "bench/ep/ep.h"
#include "device/device.h"

enum { MAX_VALUES = 64, MAX_WORD = 40 };

const char *const bench_ep_op_names[] = {[BENCH_EP_DISPATCH] = "dispatch",
                                         [BENCH_EP_COMBINE] = "combine",
                                         [BENCH_EP_BOTH] = "both",
                                         [BENCH_EP_DISPATCH_SEND] = "dispatch_send",
                                         [BENCH_EP_DISPATCH_RECV] = "dispatch_recv",
                                         [BENCH_EP_COMBINE_SEND] = "combine_send",
                                         [BENCH_EP_COMBINE_RECV] = "combine_recv",
                                         NULL};
const char *const bench_ep_mode_names[] = {[BENCH_EP_LATENCY] = "latency", [BENCH_EP_THROUGHPUT] = "throughput", NULL};

static const char *const dtype_names[] = {"bf16", "fp8", "fp8-pow2", "fp8-ue8m0", NULL}; // from WEFT_EP_BF16 on
static const char *const combine_names[] = {"bf16", "logfmt10", NULL};                   // from WEFT_EP_COMBINE_BF16 on
static const char *const layout_names[] = {"per-expert", "rank-major", "packed", NULL};  // from WEFT_EP_PER_EXPERT on
static const char *const route_names[] = {[BENCH_EP_FRESH] = "fresh", [BENCH_EP_KEPT] = "kept", NULL};
static const char *const memory_names[] = {[WEFT_EP_MEMORY_HOST] = "host", [WEFT_EP_MEMORY_CUDA] = "cuda", NULL};
static const char *const skew_names[] = {
    [BENCH_EP_UNIFORM] = "uniform", [BENCH_EP_ZIPF] = "zipf", [BENCH_EP_HOT] = "hot", NULL};

// The value of a skew that is given without one, and its least and greatest value.
static const struct {
  double preset, least, most;
} skew_values[] = {[BENCH_EP_UNIFORM] = {0, 0, 0}, [BENCH_EP_ZIPF] = {1, 0.01, 8}, [BENCH_EP_HOT] = {1, 0.01, 1}};

const char *bench_ep_dtype_name(enum weft_ep_dtype dtype) {
  return dtype_names[dtype - WEFT_EP_BF16];
}

const char *bench_ep_combine_dtype_name(enum weft_ep_combine_dtype dtype) {
  return combine_names[dtype - WEFT_EP_COMBINE_BF16];
}

const char *bench_ep_layout_name(enum weft_ep_layout layout) {
  return layout_names[layout - WEFT_EP_PER_EXPERT];
}

const char *bench_ep_route_name(enum bench_ep_route route) {
  return route_names[route];
}

const char *bench_ep_memory_name(enum weft_ep_memory memory) {
  return memory_names[memory];
}

const char *bench_ep_skew_name(const struct bench_ep_skew *skew, char *out, size_t cap) {
  if (skew->value == skew_values[skew->kind].preset)
    snprintf(out, cap, "%s", skew_names[skew->kind]);
  else
    snprintf(out, cap, "%s:%g", skew_names[skew->kind], skew->value);
  return out;
}

// The loop that measures `op`.
static enum bench_ep_loop loop_of(enum bench_ep_op op) {
  return op == BENCH_EP_BOTH ? BENCH_EP_PAIR : op < BENCH_EP_BOTH ? BENCH_EP_PARTS : BENCH_EP_SPLIT;
}

uint32_t bench_ep_times_of(enum bench_ep_loop loop) {
  return loop == BENCH_EP_PARTS ? 2 : loop == BENCH_EP_SPLIT ? 4 : 1;
}

enum bench_ep_op bench_ep_first_op(enum bench_ep_loop loop) {
  return loop == BENCH_EP_PARTS ? BENCH_EP_DISPATCH : loop == BENCH_EP_SPLIT ? BENCH_EP_DISPATCH_SEND : BENCH_EP_BOTH;
}

// --- lists ---

struct list {
  const char *option;
  double value[MAX_VALUES]; // numbers, or indices in a list of names
  struct bench_ep_skew skew[MAX_VALUES];
  uint32_t count;
};

struct range {
  uint32_t least, most, step;
};

typedef int take_fn(struct list *list, const char *word, const void *arg);

static int refuse_word(const struct list *list, const char *word, const char *const *names, const char *more) {
  struct text all = {0};
  for (; *names; names++)
    text_add(&all, "%s%s", all.size ? ", " : "", *names);
  int err = fail(WEFT_ERR_INVALID, "--%s: \"%s\" is not known: want one or more of %s%s, separated by commas",
                 list->option, word, all.data ? all.data : "", more);
  text_free(&all);
  return err;
}

static int find_name(const char *const *names, const char *word, size_t size) {
  for (int i = 0; names[i]; i++)
    if (strlen(names[i]) == size && memcmp(names[i], word, size) == 0)
      return i;
  return -1;
}

static int take_name(struct list *list, const char *word, const void *arg) {
  const char *const *names = arg;
  int place = find_name(names, word, strlen(word));
  if (place < 0)
    return refuse_word(list, word, names, "");
  list->value[list->count] = place;
  return 0;
}

static int take_number(struct list *list, const char *word, const void *arg) {
  const struct range *range = arg;
  char *end = NULL;
  bool digits = *word && strspn(word, "0123456789") == strlen(word) && strlen(word) < 10;
  unsigned long number = digits ? strtoul(word, &end, 10) : 0;
  if (digits && number >= range->least && number <= range->most && number % range->step == 0) {
    list->value[list->count] = (double)number;
    return 0;
  }
  char multiple[48] = "";
  if (range->step > 1)
    snprintf(multiple, sizeof multiple, ", multiples of %u", range->step);
  return fail(WEFT_ERR_INVALID, "--%s: \"%s\" is out of range: want numbers from %u to %u%s, separated by commas",
              list->option, word, range->least, range->most, multiple);
}

static int take_skew(struct list *list, const char *word, const void *arg) {
  size_t size = strcspn(word, ":");
  int kind = find_name(skew_names, word, size);
  (void)arg;
  if (kind < 0 || (word[size] && kind == BENCH_EP_UNIFORM))
    return refuse_word(list, word, skew_names, " (zipf:EXPONENT, hot:SHARE)");
  double value = skew_values[kind].preset;
  if (word[size]) {
    char *end = NULL;
    value = strtod(word + size + 1, &end);
    if (end == word + size + 1 || *end || !(value >= skew_values[kind].least && value <= skew_values[kind].most))
      return fail(WEFT_ERR_INVALID, "--%s: \"%s\" is out of range: want %s:N with N from %g to %g", list->option, word,
                  skew_names[kind], skew_values[kind].least, skew_values[kind].most);
  }
  list->skew[list->count] = (struct bench_ep_skew){(enum bench_ep_skew_kind)kind, value};
  list->value[list->count] = kind * 100 + value; // a different number for each skew
  return 0;
}

static int read_list(struct list *list, const char *option, const char *text, take_fn *take, const void *arg) {
  char word[MAX_WORD];
  *list = (struct list){.option = option};
  for (const char *at = text;; at++) {
    size_t size = strcspn(at, ",");
    if (size == 0)
      return fail(WEFT_ERR_INVALID, "--%s: \"%s\" has an empty value: want values with single commas between them",
                  option, text);
    snprintf(word, sizeof word, "%.*s", (int)size, at);
    if (list->count == MAX_VALUES)
      return fail(WEFT_ERR_INVALID, "--%s has more than %d values", option, MAX_VALUES);
    int err = take(list, word, arg);
    if (err)
      return err;
    for (uint32_t i = 0; i < list->count; i++)
      if (list->value[i] == list->value[list->count])
        return fail(WEFT_ERR_INVALID, "--%s names %s twice: want each value once", option, word);
    list->count++;
    at += size;
    if (!*at)
      return 0;
  }
}

// --- points ---

enum { MEMORY, DTYPE, COMBINE, LAYOUT, ROUTE, PROCESSORS, SKEW, RANKS, EXPERTS, HIDDEN, TOPK, TOKENS, LISTS };

static int read_lists(const struct bench_ep_config *config, struct list *lists) {
  static const struct range tokens = {1, EP_MAX_TOKENS_THROUGHPUT, 1}, processors = {0, 1024, 1},
                            topk = {1, EP_MAX_TOPK, 1}, ranks = {1, EP_MAX_CAPACITY, 1},
                            experts = {1, EP_MAX_EXPERTS, 1}, hidden = {WEFT_EP_BLOCK, EP_MAX_HIDDEN, WEFT_EP_BLOCK};
  const struct {
    const char *option, *text;
    take_fn *take;
    const void *arg;
  } wanted[LISTS] = {
      [MEMORY] = {"memory", config->memories, take_name, memory_names},
      [DTYPE] = {"dtype", config->dtypes, take_name, dtype_names},
      [COMBINE] = {"combine-dtype", config->combine_dtypes, take_name, combine_names},
      [LAYOUT] = {"layout", config->layouts, take_name, layout_names},
      [ROUTE] = {"route", config->routes, take_name, route_names},
      [PROCESSORS] = {"processors", config->processors, take_number, &processors},
      [SKEW] = {"skew", config->skews, take_skew, NULL},
      [RANKS] = {"ranks", config->ranks, take_number, &ranks},
      [EXPERTS] = {"experts-per-rank", config->experts, take_number, &experts},
      [HIDDEN] = {"hidden", config->hidden, take_number, &hidden},
      [TOPK] = {"topk", config->topk, take_number, &topk},
      [TOKENS] = {"tokens", config->tokens, take_number, &tokens},
  };
  int err = 0;
  for (int i = 0; i < LISTS && !err; i++)
    err = read_list(&lists[i], wanted[i].option, wanted[i].text, wanted[i].take, wanted[i].arg);
  return err;
}

static int read_ops(const struct bench_ep_config *config, struct bench_ep_sweep *sweep, bool loops[BENCH_EP_LOOPS]) {
  struct list ops;
  int err = read_list(&ops, "op", config->ops, take_name, bench_ep_op_names);
  if (err)
    return err;
  for (uint32_t i = 0; i < ops.count; i++) {
    enum bench_ep_op op = (enum bench_ep_op)ops.value[i];
    sweep->wanted[op] = true;
    loops[loop_of(op)] = true;
  }
  loops[BENCH_EP_GRAPH] = config->graph;
  if (config->graph && !sweep->wanted[BENCH_EP_BOTH])
    return fail(WEFT_ERR_INVALID,
                "--graph measures a dispatch and its combine in one CUDA graph: want \"both\" in --op");
  return 0;
}

// What the library would refuse in a single measurement is refused here, before the first one.
static int check_mode(const struct bench_ep_config *config, const struct bench_ep_point *point) {
  if (config->mode == BENCH_EP_LATENCY && point->tokens > EP_MAX_TOKENS)
    return fail(WEFT_ERR_INVALID, "--tokens %u is more than the %d that --mode latency allows: want --mode throughput",
                point->tokens, EP_MAX_TOKENS);
  if (config->mode == BENCH_EP_LATENCY && config->window_bytes)
    return fail(WEFT_ERR_INVALID, "--window is given for --mode latency: it belongs to --mode throughput");
  if (point->processors && point->memory != WEFT_EP_MEMORY_CUDA)
    return fail(WEFT_ERR_INVALID, "--processors %u is for kernels: want only --memory cuda, not %s", point->processors,
                memory_names[point->memory]);
  if (point->processors && point->processors < EP_MIN_PROCESSORS)
    return fail(WEFT_ERR_INVALID, "--processors: \"%u\" is out of range: want 0, or numbers from %d on",
                point->processors, EP_MIN_PROCESSORS);
  return 0;
}

static int check_point(const struct bench_ep_point *point) {
  uint64_t experts = (uint64_t)point->ranks * point->experts;
  if (point->topk > experts)
    return fail(WEFT_ERR_INVALID,
                "--topk %u is more than there are experts: %u rank%s with %u expert%s each have %llu in all",
                point->topk, point->ranks, text_s(point->ranks), point->experts, text_s(point->experts),
                (unsigned long long)experts);
  if (point->memory == WEFT_EP_MEMORY_CUDA && point->ranks > DEVICE_SEATS)
    return fail(WEFT_ERR_INVALID, "--ranks %u is more than the %d ranks that a group has with --memory cuda",
                point->ranks, DEVICE_SEATS);
  if (point->loop == BENCH_EP_GRAPH && point->memory != WEFT_EP_MEMORY_CUDA)
    return fail(WEFT_ERR_INVALID, "--graph is for CUDA graphs: want only --memory cuda, not %s",
                memory_names[point->memory]);
  return 0;
}

// The point at place `at` in the product of the lists; the last list changes fastest.
static struct bench_ep_point point_at(const struct list *lists, uint64_t at) {
  uint32_t place[LISTS];
  for (int i = LISTS - 1; i >= 0; i--) {
    place[i] = (uint32_t)(at % lists[i].count);
    at /= lists[i].count;
  }
  double value[LISTS];
  for (int i = 0; i < LISTS; i++)
    value[i] = lists[i].value[place[i]];
  return (struct bench_ep_point){
      .tokens = (uint32_t)value[TOKENS],
      .hidden = (uint32_t)value[HIDDEN],
      .topk = (uint32_t)value[TOPK],
      .ranks = (uint32_t)value[RANKS],
      .experts = (uint32_t)value[EXPERTS],
      .dtype = (enum weft_ep_dtype)(WEFT_EP_BF16 + (int)value[DTYPE]),
      .combine_dtype = (enum weft_ep_combine_dtype)(WEFT_EP_COMBINE_BF16 + (int)value[COMBINE]),
      .layout = (enum weft_ep_layout)(WEFT_EP_PER_EXPERT + (int)value[LAYOUT]),
      .route = (enum bench_ep_route)value[ROUTE],
      .processors = (uint32_t)value[PROCESSORS],
      .skew = lists[SKEW].skew[place[SKEW]],
      .memory = (enum weft_ep_memory)value[MEMORY],
  };
}

static int check_alignment(const struct bench_ep_config *config, const struct bench_ep_sweep *sweep) {
  for (uint32_t i = 0; i < sweep->count; i++)
    if (sweep->points[i].layout == WEFT_EP_PACKED)
      return 0;
  return config->alignment
             ? fail(WEFT_ERR_INVALID, "--alignment is given without --layout packed, whose parts it aligns")
             : 0;
}

static int make_points(const struct bench_ep_config *config, const struct list *lists, const bool loops[BENCH_EP_LOOPS],
                       struct bench_ep_sweep *sweep) {
  uint64_t product = 1, num_loops = 0;
  for (int i = 0; i < LISTS && product <= BENCH_EP_MAX_POINTS; i++)
    product *= lists[i].count;
  for (int loop = 0; loop < BENCH_EP_LOOPS; loop++)
    num_loops += loops[loop];
  if (product * num_loops > BENCH_EP_MAX_POINTS)
    return fail(WEFT_ERR_INVALID, "the lists make more than %d measurements: want fewer values", BENCH_EP_MAX_POINTS);
  sweep->points = calloc(product * num_loops, sizeof *sweep->points);
  if (!sweep->points)
    return fail(WEFT_ERR_NOMEM, "no memory for the points of the sweep");
  for (uint64_t at = 0; at < product; at++)
    for (int loop = 0; loop < BENCH_EP_LOOPS; loop++) {
      if (!loops[loop])
        continue;
      struct bench_ep_point point = point_at(lists, at);
      point.loop = (enum bench_ep_loop)loop;
      int err = check_point(&point);
      if (!err)
        err = check_mode(config, &point);
      if (err)
        return err;
      sweep->points[sweep->count++] = point;
      sweep->max_ranks = point.ranks > sweep->max_ranks ? point.ranks : sweep->max_ranks;
    }
  return 0;
}

int bench_ep_sweep_parse(const struct bench_ep_config *config, struct bench_ep_sweep *out) {
  struct list *lists = calloc(LISTS, sizeof *lists);
  struct bench_ep_sweep sweep = {0};
  bool loops[BENCH_EP_LOOPS] = {false};
  int err = lists ? read_lists(config, lists) : fail(WEFT_ERR_NOMEM, "no memory for the sweep");
  if (!err)
    err = read_ops(config, &sweep, loops);
  if (!err)
    err = make_points(config, lists, loops, &sweep);
  if (!err)
    err = check_alignment(config, &sweep);
  free(lists);
  if (err)
    bench_ep_sweep_free(&sweep);
  else
    *out = sweep;
  return err;
}

void bench_ep_sweep_free(struct bench_ep_sweep *sweep) {
  free(sweep->points);
  *sweep = (struct bench_ep_sweep){0};
}
