// The choice of NICs in `weft info --topology`: their distances from the GPUs, which NIC serves which GPU, and why.
#include "cli/info/text.h"

#include "base/fail.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/wrap.h"
#include "cli/info/printer.h"
#include "topology/choice/choice.h"

#include <string.h>

enum { FIRST_NIC = 1, SHOWN_NICS = TABLE_MAX_COLUMNS - FIRST_NIC }; // the matrix has no room for more

static bool serves(const json_t *gpu, const char *nic) {
  const json_t *name;
  size_t i;
  json_array_foreach(json_object_get(gpu, "nics"), i, name) {
    if (strcmp(json_string_value(name), nic) == 0)
      return true;
  }
  return false;
}

static int print_table(FILE *out, struct table *table, const struct table_look *look) {
  bool failed = table->failed;
  table_print(out, table, look);
  table_free(table);
  return failed ? fail(WEFT_ERR_NOMEM, "no memory for a table") : 0;
}

// All NICs when they fit, else those that serve a GPU: hosts with an adapter for each GPU may have more of other kinds.
static size_t pick_shown(const json_t *nics, size_t shown[SHOWN_NICS]) {
  size_t count = 0, n;
  const json_t *nic;
  json_array_foreach(nics, n, nic) {
    if (count < SHOWN_NICS && (json_array_size(nics) <= SHOWN_NICS || json_is_true(json_object_get(nic, "chosen"))))
      shown[count++] = n;
  }
  return count;
}

// A row for each GPU, a column for each of the NICs `shown`; a star marks those that serve the GPU, because colours may
// not be visible.
static int print_part(FILE *out, const json_t *choice, const size_t *shown, size_t count,
                      const struct table_look *look) {
  const json_t *gpus = json_object_get(choice, "gpus"), *nics = json_object_get(choice, "nics"), *gpu;
  struct table_column columns[TABLE_MAX_COLUMNS] = {{.heading = "GPU"}};
  size_t g;
  for (size_t n = 0; n < count; n++)
    columns[FIRST_NIC + n].heading = cli_info_member(json_array_get(nics, shown[n]), "name");
  struct table table = {.columns = columns, .num_columns = FIRST_NIC + count};
  json_array_foreach(gpus, g, gpu) {
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%zu at %s", g, cli_info_member(gpu, "address"));
    for (size_t n = 0; n < count; n++) {
      bool chosen = serves(gpu, columns[FIRST_NIC + n].heading);
      const char *distance =
          json_string_value(json_array_get(json_array_get(json_object_get(choice, "distances"), g), shown[n]));
      table_add(&table, chosen ? TABLE_GREEN : TABLE_PLAIN, "%s%s", distance, chosen ? "*" : "");
    }
  }
  return print_table(out, &table, look);
}

// The number of NICs that fit beside the GPUs, at least one.
static size_t count_that_fit(const json_t *nics, const size_t *shown, size_t count, size_t width) {
  enum { GPU_WIDTH = 20, GAP = 2, LEAST = 5 }; // "15 at 0000:00:00.0", "PIX*"
  size_t used = GPU_WIDTH, n = 0;
  for (; n < count; n++) {
    size_t name = table_width(cli_info_member(json_array_get(nics, shown[n]), "name"));
    used += GAP + (name > LEAST ? name : LEAST);
    if (used > width && n > 0)
      break;
  }
  return n;
}

static int print_matrix(FILE *out, const json_t *choice, const struct table_look *look) {
  const json_t *nics = json_object_get(choice, "nics");
  size_t shown[SHOWN_NICS], num_shown = pick_shown(nics, shown), done = 0;
  int err = 0;
  while (!err && done < num_shown) {
    size_t count = count_that_fit(nics, shown + done, num_shown - done, look->width);
    err = print_part(out, choice, shown + done, count, look);
    done += count;
  }
  size_t more = json_array_size(nics) - num_shown;
  if (more > 0)
    fprintf(out, "and %zu more NIC%s (--json has all)\n", more, more == 1 ? "" : "s");
  return err;
}

static void print_gpus(FILE *out, const json_t *gpus, size_t width) {
  const json_t *gpu;
  size_t g;
  json_array_foreach(gpus, g, gpu) {
    struct text line = {0};
    text_add(&line, "GPU %zu: %s", g, cli_info_member(gpu, "why"));
    if (*cli_info_member(gpu, "cpus"))
      text_add(&line, "; its threads on processors %s", cli_info_member(gpu, "cpus"));
    wrap_write(out, line.data ? line.data : "", 0, CLI_INFO_INDENT, width);
    text_free(&line);
  }
}

static int print_nics(FILE *out, const json_t *nics, const struct table_look *look) {
  static const struct table_column columns[] = {{.heading = "NIC"},
                                                {.heading = "address"},
                                                {.heading = "interface"},
                                                {.heading = "node", .right = true},
                                                {.heading = "link"},
                                                {.heading = "layer"},
                                                {.heading = "Gbit/s", .right = true},
                                                {.heading = "reason why it serves no GPU", .wrap = true}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof columns[0]};
  const json_t *nic;
  size_t n;
  json_array_foreach(nics, n, nic) {
    const json_t *node = json_object_get(nic, "numa_node"), *mbit_s = json_object_get(nic, "mbit_s");
    bool down = strcmp(cli_info_member(nic, "link"), "down") == 0;
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%s", cli_info_member(nic, "name"));
    table_add(&table, TABLE_PLAIN, "%s", cli_info_member(nic, "address"));
    table_add(&table, TABLE_PLAIN, "%s", cli_info_member(nic, "interface"));
    if (json_is_integer(node))
      table_add(&table, TABLE_PLAIN, "%" JSON_INTEGER_FORMAT, json_integer_value(node));
    else
      table_add(&table, TABLE_PLAIN, "-");
    table_add(&table, down ? TABLE_RED : TABLE_PLAIN, "%s", cli_info_member(nic, "link"));
    table_add(&table, TABLE_PLAIN, "%s", cli_info_member(nic, "link_layer"));
    if (json_is_integer(mbit_s))
      table_add(&table, TABLE_PLAIN, "%.4g", (double)json_integer_value(mbit_s) / 1e3);
    else
      table_add(&table, TABLE_PLAIN, "-");
    table_add(&table, TABLE_DIM, "%s", cli_info_member(nic, "why"));
  }
  return print_table(out, &table, look);
}

static void print_legend(FILE *out, size_t width) {
  struct text line = {0};
  text_add(&line, "* serves the GPU");
  for (int d = TOPOLOGY_PIX; d <= TOPOLOGY_SYS; d++)
    text_add(&line, "; %s: %s", topology_distance_name(d), topology_distance_meaning(d));
  wrap_write(out, line.data ? line.data : "", 0, CLI_INFO_INDENT, width);
  text_free(&line);
}

int cli_info_print_choice(FILE *out, const json_t *choice, struct cli_terminal terminal) {
  const struct table_look look = {terminal.color, terminal.unicode, terminal.width};
  const json_t *gpus = json_object_get(choice, "gpus"), *nics = json_object_get(choice, "nics");
  fputc('\n', out);
  table_print_text(out, look.color, TABLE_BOLD, "NICs for GPUs", 0);
  fputc('\n', out);
  if (!json_is_true(json_object_get(choice, "known"))) {
    wrap_write(out, *cli_info_member(choice, "error") ? cli_info_member(choice, "error") : "not known without hwloc", 0,
               CLI_INFO_INDENT, look.width);
    return 0;
  }
  int err = 0;
  if (json_array_size(gpus) == 0)
    fputs("there is no GPU on the PCI bus\n", out);
  else if (json_array_size(nics) > 0) {
    err = print_matrix(out, choice, &look);
    print_legend(out, look.width);
  }
  print_gpus(out, gpus, look.width);
  if (json_array_size(nics) == 0)
    fputs("there is no NIC on the PCI bus\n", out);
  else if (!err)
    err = print_nics(out, nics, &look);
  return err;
}
