// The text of `weft info`, made from the JSON.
#include "cli/info/text.h"

#include "base/fail.h"
#include "base/text/text.h"
#include "base/text/wrap.h"
#include "cli/info/printer.h"

#include <stdlib.h>
#include <string.h>

static void print_build(struct cli_info_printer *printer, const json_t *build) {
  cli_info_heading(printer, "Build");
  cli_info_say(printer, "%s, %s, %s (%s), sanitizers: %s", cli_info_member(build, "compiler"),
               cli_info_member(build, "target"), cli_info_member(build, "type"), cli_info_member(build, "flags"),
               cli_info_member(build, "sanitizers"));
  const json_t *library;
  size_t i;
  json_array_foreach(json_object_get(build, "libraries"), i, library) {
    const char *version = cli_info_member(library, "version");
    cli_info_say(printer, "%s %s%s%s (%s)", *version ? "with" : "without", cli_info_member(library, "name"),
                 *version ? " " : "", version, cli_info_member(library, "for"));
  }
}

static void print_libraries(struct cli_info_printer *printer, const json_t *libraries) {
  cli_info_heading(printer, "Libraries");
  const json_t *library, *avoided;
  size_t i, k;
  json_array_foreach(libraries, i, library) {
    const char *name = cli_info_member(library, "name"), *version = cli_info_member(library, "version");
    cli_info_say(printer, "%s %s (%s)", name, *version ? version : "cannot be loaded", cli_info_member(library, "for"));
    json_array_foreach(json_object_get(library, "avoided"), k, avoided) {
      cli_info_say(printer, "  without %s: %s; %s", cli_info_member(avoided, "what"), cli_info_member(avoided, "why"),
                   cli_info_member(avoided, "instead"));
    }
  }
}

// "WHAT: WORD, MORE: REASON", in the colour of whether it is available; `more` and the reason may be empty.
static void print_available(struct cli_info_printer *printer, const char *what, const char *words[2], const char *more,
                            const json_t *row) {
  bool available = json_is_true(json_object_get(row, "available"));
  const char *word = words[available], *reason = available ? "" : cli_info_member(row, "reason");
  struct text text = {0};
  text_add(&text, "%s%s%s%s", *more ? ", " : "", more, *reason ? ": " : "", reason);
  printer->failed |= text.failed;
  fputs(what, printer->out);
  table_print_text(printer->out, printer->look.color, available ? TABLE_GREEN : TABLE_RED, word, 0);
  wrap_write(printer->out, text.data ? text.data : "", table_width(what) + table_width(word), CLI_INFO_INDENT,
             printer->look.width);
  text_free(&text);
}

static void print_transport(struct cli_info_printer *printer, const json_t *transport) {
  static const char *words[] = {"not available", "available"};
  const char *kernels = cli_info_member(transport, "kernels");
  char what[64];
  snprintf(what, sizeof what, "%s: ", cli_info_member(transport, "name"));
  print_available(printer, what, words, cli_info_member(transport, "reach"), transport);
  if (cli_info_member(transport, "nics")[0])
    cli_info_say(printer, "NICs of %s: %s", cli_info_member(transport, "name"), cli_info_member(transport, "nics"));
  if (!kernels[0])
    return;
  char *variants = cli_info_join(json_object_get(transport, "variants"));
  cli_info_say(printer, "kernels: %s; those that run here: %s", kernels, variants ? variants : "");
  free(variants);
}

static void print_transports(struct cli_info_printer *printer, const json_t *transports) {
  cli_info_heading(printer, "Transports");
  const json_t *transport;
  size_t i;
  json_array_foreach(transports, i, transport) {
    print_transport(printer, transport);
  }
}

static void print_gpu(struct cli_info_printer *printer, const json_t *gpu) {
  if (*cli_info_member(gpu, "error"))
    cli_info_say(printer, "%" JSON_INTEGER_FORMAT ": %s", cli_info_number(gpu, "index"), cli_info_member(gpu, "error"));
  else
    cli_info_say(printer,
                 "%" JSON_INTEGER_FORMAT ": %s at %s, %.0f GiB, %" JSON_INTEGER_FORMAT
                 " processors, compute capability %s%s; GPU-%s",
                 cli_info_number(gpu, "index"), cli_info_member(gpu, "name"), cli_info_member(gpu, "pci"),
                 (double)cli_info_number(gpu, "memory_bytes") / (1 << 30), cli_info_number(gpu, "processors"),
                 cli_info_member(gpu, "compute_capability"),
                 json_is_true(json_object_get(gpu, "windows")) ? "" : ", cannot share its memory between processes",
                 cli_info_member(gpu, "uuid"));
}

static void print_gpus(struct cli_info_printer *printer, const json_t *gpus) {
  static const char *words[] = {"none", ""};
  cli_info_heading(printer, "GPUs");
  if (!json_is_true(json_object_get(gpus, "available")))
    print_available(printer, "", words, "", gpus);
  const json_t *gpu;
  size_t i;
  json_array_foreach(json_object_get(gpus, "devices"), i, gpu) {
    print_gpu(printer, gpu);
  }
}

static void print_host(struct cli_info_printer *printer, const json_t *host) {
  struct text line = {0};
  cli_info_heading(printer, "Host");
  cli_info_say(printer, "%s, %s, boot %s", cli_info_member(host, "host"), cli_info_member(host, "kernel"),
               cli_info_member(host, "boot_id"));
  if (*cli_info_member(host, "cpu_model"))
    cli_info_say(printer, "%s", cli_info_member(host, "cpu_model"));
  if (json_object_get(host, "packages"))
    text_add(&line, "packages: %" JSON_INTEGER_FORMAT ", NUMA nodes: %zu, cores: %" JSON_INTEGER_FORMAT ", ",
             cli_info_number(host, "packages"), json_array_size(json_object_get(host, "numa_nodes")),
             cli_info_number(host, "cores"));
  cli_info_say(printer, "%sthreads: %" JSON_INTEGER_FORMAT ", memory: %.1f GiB (from %s)", line.data ? line.data : "",
               cli_info_number(host, "threads"), (double)cli_info_number(host, "memory_bytes") / (1 << 30),
               cli_info_member(host, "source"));
  printer->failed |= line.failed;
  text_free(&line);
}

static void print_numa_and_caches(struct cli_info_printer *printer, const json_t *host) {
  const json_t *row;
  size_t i;
  json_array_foreach(json_object_get(host, "numa_nodes"), i, row) {
    fprintf(printer->out, "NUMA node %" JSON_INTEGER_FORMAT ": processors %s, %.1f GiB\n", cli_info_number(row, "node"),
            cli_info_member(row, "cpus"), (double)cli_info_number(row, "memory_bytes") / (1 << 30));
  }
  json_array_foreach(json_object_get(host, "caches"), i, row) {
    fprintf(printer->out, "L%" JSON_INTEGER_FORMAT " cache: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " KiB\n",
            cli_info_number(row, "level"), cli_info_number(row, "count"), cli_info_number(row, "bytes") / 1024);
  }
}

static void print_devices(struct cli_info_printer *printer, const json_t *devices) {
  static const struct table_column columns[] = {{.heading = "device"},
                                                {.heading = "kind"},
                                                {.heading = "id"},
                                                {.heading = "node", .right = true},
                                                {.heading = "names", .wrap = true},
                                                {.heading = "model", .wrap = true}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof columns[0]};
  const json_t *row;
  size_t i;
  json_array_foreach(devices, i, row) {
    const json_t *node = json_object_get(row, "numa_node");
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%s", cli_info_member(row, "address"));
    table_add(&table, TABLE_PLAIN, "%s", cli_info_member(row, "kind"));
    table_add(&table, TABLE_PLAIN, "%s:%s", cli_info_member(row, "vendor"), cli_info_member(row, "device"));
    if (node)
      table_add(&table, TABLE_PLAIN, "%" JSON_INTEGER_FORMAT, json_integer_value(node));
    else
      table_add(&table, TABLE_PLAIN, "-");
    char *names = cli_info_join(json_object_get(row, "names"));
    table_add(&table, TABLE_PLAIN, "%s", names ? names : "");
    free(names);
    table_add(&table, TABLE_PLAIN, "%s", cli_info_member(row, "name"));
  }
  if (table.num_rows > 0)
    cli_info_heading(printer, "Devices");
  cli_info_print_table(printer, &table);
}

static void print_interfaces(struct cli_info_printer *printer, const json_t *interfaces) {
  static const struct table_column columns[] = {{.heading = "interface"},
                                                {.heading = "state"},
                                                {.heading = "MTU", .right = true},
                                                {.heading = "Mbit/s", .right = true}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof columns[0]};
  const json_t *row;
  size_t i;
  json_array_foreach(interfaces, i, row) {
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%s", cli_info_member(row, "name"));
    table_add(&table, TABLE_PLAIN, "%s", cli_info_member(row, "state"));
    table_add(&table, TABLE_PLAIN, "%" JSON_INTEGER_FORMAT, cli_info_number(row, "mtu"));
    if (json_object_get(row, "mbit_s"))
      table_add(&table, TABLE_PLAIN, "%" JSON_INTEGER_FORMAT, cli_info_number(row, "mbit_s"));
    else
      table_add(&table, TABLE_PLAIN, "-");
  }
  cli_info_heading(printer, "Network interfaces");
  cli_info_print_table(printer, &table);
}

static void print_limits(struct cli_info_printer *printer, const json_t *limits) {
  static const struct table_column columns[] = {
      {.heading = "limit"}, {.heading = "value", .right = true}, {.heading = "meaning", .wrap = true}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof columns[0]};
  const json_t *row;
  size_t i;
  json_array_foreach(limits, i, row) {
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%s", cli_info_member(row, "name"));
    if (json_is_null(json_object_get(row, "value")))
      table_add(&table, TABLE_PLAIN, "unlimited");
    else
      table_add(&table, TABLE_PLAIN, "%" JSON_INTEGER_FORMAT, cli_info_number(row, "value"));
    table_add(&table, TABLE_DIM, "%s", cli_info_member(row, "meaning"));
  }
  cli_info_heading(printer, "Limits");
  cli_info_print_table(printer, &table);
}

int cli_info_print(FILE *out, const json_t *info, struct cli_terminal terminal, bool topology) {
  struct cli_info_printer printer = {.out = out, .look = {terminal.color, terminal.unicode, terminal.width}};
  const json_t *host = json_object_get(info, "host");
  fprintf(out, "weft %s\n", cli_info_member(info, "version"));
  print_build(&printer, json_object_get(info, "build"));
  print_libraries(&printer, json_object_get(info, "libraries"));
  print_transports(&printer, json_object_get(info, "transports"));
  print_gpus(&printer, json_object_get(info, "gpus"));
  print_host(&printer, host);
  if (topology) {
    print_numa_and_caches(&printer, host);
    print_devices(&printer, json_object_get(host, "devices"));
    print_interfaces(&printer, json_object_get(host, "interfaces"));
    printer.failed |= cli_info_print_choice(out, json_object_get(info, "choice"), terminal) != 0;
    cli_info_say(&printer, "threads that drive transports run %s", cli_info_member(info, "threads"));
  }
  print_limits(&printer, json_object_get(info, "limits"));
  cli_info_print_options(&printer, json_object_get(info, "options"));
  cli_info_print_variables(&printer, json_object_get(info, "variables"), json_object_get(info, "unknown_variables"));
  return printer.failed ? fail(WEFT_ERR_NOMEM, "no memory for a table") : 0;
}
