// The columns of the table, and the line of options that are equal in all rows.
#include "bench/ep/heading.h"

#include <string.h>

#include "base/text/text.h"
#include "base/text/wrap.h"

// Columns as "NAME:WIDTH". A process has one benchmark.
static struct {
  char name[20][32];
  const char *list[21];
  uint32_t count;
} columns;

static void add_column(const char *name, size_t width) {
  snprintf(columns.name[columns.count], sizeof *columns.name, "%s:%zu", name, width);
  columns.list[columns.count] = columns.name[columns.count];
  columns.count++;
}

// The width of the longest value in a list.
static size_t longest(const char *list) {
  size_t longest = 0;
  for (const char *at = list;; at++) {
    size_t size = strcspn(at, ",");
    longest = size > longest ? size : longest;
    at += size;
    if (!*at)
      return longest;
  }
}

void bench_ep_heading(struct bench_output *output, const struct bench_ep_config *config) {
  static const char *const figures[] = {"latency", "logical_bandwidth", "wire_bandwidth", NULL};
  static const char *const skewed[] = {"latency", "logical_bandwidth", "wire_bandwidth", "busiest_expert", NULL};
  const struct {
    const char *key, *list, *word;
  } lists[] = {{"ranks", config->ranks, "ranks"},
               {"experts", config->experts, "experts per rank"},
               {"tokens", config->tokens, "tokens"},
               {"hidden", config->hidden, "hidden"},
               {"topk", config->topk, "top-k"},
               {"dtype", config->dtypes, "dispatch"},
               {"combine_dtype", config->combine_dtypes, "combine"},
               {"layout", config->layouts, "layout"},
               {"route", config->routes, "routes are"},
               {"processors", config->processors, "processors"},
               {"skew", config->skews, "experts are"},
               {"memory", config->memories, "memory"}};
  struct text same = {0};
  add_column("op", longest(config->ops));
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (strchr(lists[i].list, ','))
      add_column(lists[i].key, longest(lists[i].list));
    else if (strcmp(lists[i].list, "0") != 0) // 0: the library chooses
      text_add(&same, "%s%s %s", same.size ? ", " : "", lists[i].word, lists[i].list);
  if (config->graph)
    add_column("graph", 5);
  columns.list[columns.count] = NULL;
  output->columns = columns.list;
  output->figures = strcmp(config->skews, "uniform") == 0 ? figures : skewed;
  if (output->out && same.data)
    wrap_write(output->out, same.data, 0, 2, output->width);
  text_free(&same);
}
