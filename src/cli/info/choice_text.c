// The choice of NICs, in `weft info --topology`: how far they are from the GPUs, which serve which, and why.
#include "cli/info/text.h"

#include "base/fail.h"
#include "base/text/table.h"
#include "topology/choice/choice.h"

#include <string.h>

enum { FIRST_NIC = 1, SHOWN_NICS = TABLE_MAX_COLUMNS - FIRST_NIC }; // the matrix has no room for more

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

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

// A row for each GPU, a column for each NIC; a star marks those that serve the GPU, as colour alone may not show.
static int print_matrix(FILE *out, const json_t *choice, const struct table_look *look) {
  const json_t *gpus = json_object_get(choice, "gpus"), *nics = json_object_get(choice, "nics"), *gpu;
  struct table_column columns[TABLE_MAX_COLUMNS] = {{.heading = "GPU"}};
  size_t shown[SHOWN_NICS], num_shown = pick_shown(nics, shown), g;
  for (size_t n = 0; n < num_shown; n++)
    columns[FIRST_NIC + n].heading = text_of(json_array_get(nics, shown[n]), "name");
  struct table table = {.columns = columns, .num_columns = FIRST_NIC + num_shown};
  json_array_foreach(gpus, g, gpu) {
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%zu at %s", g, text_of(gpu, "address"));
    for (size_t n = 0; n < num_shown; n++) {
      bool chosen = serves(gpu, columns[FIRST_NIC + n].heading);
      const char *distance =
          json_string_value(json_array_get(json_array_get(json_object_get(choice, "distances"), g), shown[n]));
      table_add(&table, chosen ? TABLE_GREEN : TABLE_PLAIN, "%s%s", distance, chosen ? "*" : "");
    }
  }
  int err = print_table(out, &table, look);
  if (num_shown < json_array_size(nics))
    fprintf(out, "and %zu more NICs (--json has all)\n", json_array_size(nics) - num_shown);
  return err;
}

static void print_gpus(FILE *out, const json_t *gpus) {
  const json_t *gpu;
  size_t g;
  json_array_foreach(gpus, g, gpu) {
    fprintf(out, "GPU %zu: %s", g, text_of(gpu, "why"));
    if (*text_of(gpu, "cpus"))
      fprintf(out, "; its threads on processors %s", text_of(gpu, "cpus"));
    fputc('\n', out);
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
                                                {.heading = "why it serves none"}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof columns[0]};
  const json_t *nic;
  size_t n;
  json_array_foreach(nics, n, nic) {
    const json_t *node = json_object_get(nic, "numa_node"), *mbit_s = json_object_get(nic, "mbit_s");
    bool down = strcmp(text_of(nic, "link"), "down") == 0;
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%s", text_of(nic, "name"));
    table_add(&table, TABLE_PLAIN, "%s", text_of(nic, "address"));
    table_add(&table, TABLE_PLAIN, "%s", text_of(nic, "interface"));
    if (json_is_integer(node))
      table_add(&table, TABLE_PLAIN, "%" JSON_INTEGER_FORMAT, json_integer_value(node));
    else
      table_add(&table, TABLE_PLAIN, "-");
    table_add(&table, down ? TABLE_RED : TABLE_PLAIN, "%s", text_of(nic, "link"));
    table_add(&table, TABLE_PLAIN, "%s", text_of(nic, "link_layer"));
    if (json_is_integer(mbit_s))
      table_add(&table, TABLE_PLAIN, "%.4g", (double)json_integer_value(mbit_s) / 1e3);
    else
      table_add(&table, TABLE_PLAIN, "-");
    table_add(&table, TABLE_DIM, "%s", text_of(nic, "why"));
  }
  return print_table(out, &table, look);
}

int cli_info_print_choice(FILE *out, const json_t *choice, struct cli_terminal terminal) {
  const struct table_look look = {.color = terminal.color, .unicode = terminal.unicode};
  const json_t *gpus = json_object_get(choice, "gpus"), *nics = json_object_get(choice, "nics");
  fputc('\n', out);
  table_print_text(out, look.color, TABLE_BOLD, "NICs for GPUs", 0);
  fputc('\n', out);
  if (!json_is_true(json_object_get(choice, "known"))) {
    fprintf(out, "%s\n", *text_of(choice, "error") ? text_of(choice, "error") : "not known without hwloc");
    return 0;
  }
  int err = 0;
  if (json_array_size(gpus) == 0)
    fputs("there is no GPU on the PCI bus\n", out);
  else if (json_array_size(nics) > 0) {
    err = print_matrix(out, choice, &look);
    fputs("* serves the GPU; ", out);
    for (int d = TOPOLOGY_PIX; d <= TOPOLOGY_SYS; d++)
      fprintf(out, "%s: %s%s", topology_distance_name(d), topology_distance_meaning(d), d < TOPOLOGY_SYS ? "; " : "\n");
  }
  print_gpus(out, gpus);
  if (json_array_size(nics) == 0)
    fputs("there is no NIC on the PCI bus\n", out);
  else if (!err)
    err = print_nics(out, nics, &look);
  return err;
}
