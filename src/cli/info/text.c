// The text of `weft info`, made from the JSON.
#include "cli/info/text.h"

#include "base/fail.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/wrap.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { INDENT = 4 };

struct printer {
  FILE *out;
  struct table_look look;
  bool failed;
};

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static json_int_t number_of(const json_t *object, const char *key) {
  return json_integer_value(json_object_get(object, key));
}

// A sentence or a list, which goes on in indented lines where it is longer than one.
static void say(struct printer *printer, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct printer *printer, const char *format, ...) {
  va_list args;
  char *text = NULL;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0)
    printer->failed = true;
  else
    wrap_write(printer->out, text, 0, INDENT, printer->look.width);
  va_end(args);
  free(text);
}

static void heading(struct printer *printer, const char *text) {
  fputc('\n', printer->out);
  table_print_text(printer->out, printer->look.color, TABLE_BOLD, text, 0);
  fputc('\n', printer->out);
}

// The strings of an array with commas between them; the caller's, NULL when memory ran out.
static char *join(const json_t *strings) {
  struct text joined = {0};
  const json_t *string;
  size_t i;
  json_array_foreach(strings, i, string) {
    text_add(&joined, "%s%s", i ? ", " : "", json_string_value(string));
  }
  return text_take(&joined);
}

static void print_table(struct printer *printer, struct table *table) {
  printer->failed |= table->failed;
  table_print(printer->out, table, &printer->look);
  table_free(table);
}

static void print_build(struct printer *printer, const json_t *build) {
  heading(printer, "Build");
  say(printer, "%s, %s, %s (%s), sanitizers: %s", text_of(build, "compiler"), text_of(build, "target"),
      text_of(build, "type"), text_of(build, "flags"), text_of(build, "sanitizers"));
  const json_t *library;
  size_t i;
  json_array_foreach(json_object_get(build, "libraries"), i, library) {
    const char *version = text_of(library, "version");
    say(printer, "%s %s%s%s (%s)", *version ? "with" : "without", text_of(library, "name"), *version ? " " : "",
        version, text_of(library, "for"));
  }
}

static void print_libraries(struct printer *printer, const json_t *libraries) {
  heading(printer, "Libraries");
  const json_t *library, *avoided;
  size_t i, k;
  json_array_foreach(libraries, i, library) {
    const char *name = text_of(library, "name"), *version = text_of(library, "version");
    say(printer, "%s %s (%s)", name, *version ? version : "cannot be loaded", text_of(library, "for"));
    json_array_foreach(json_object_get(library, "avoided"), k, avoided) {
      say(printer, "  without %s: %s; %s", text_of(avoided, "what"), text_of(avoided, "why"),
          text_of(avoided, "instead"));
    }
  }
}

// "WHAT: WORD, MORE: REASON", in the colour of whether it is available; `more` and the reason may be empty.
static void print_available(struct printer *printer, const char *what, const char *words[2], const char *more,
                            const json_t *row) {
  bool available = json_is_true(json_object_get(row, "available"));
  const char *word = words[available], *reason = available ? "" : text_of(row, "reason");
  struct text text = {0};
  text_add(&text, "%s%s%s%s", *more ? ", " : "", more, *reason ? ": " : "", reason);
  printer->failed |= text.failed;
  fputs(what, printer->out);
  table_print_text(printer->out, printer->look.color, available ? TABLE_GREEN : TABLE_RED, word, 0);
  wrap_write(printer->out, text.data ? text.data : "", table_width(what) + table_width(word), INDENT,
             printer->look.width);
  text_free(&text);
}

static void print_transport(struct printer *printer, const json_t *transport) {
  static const char *words[] = {"not available", "available"};
  const char *kernels = text_of(transport, "kernels");
  char what[64];
  snprintf(what, sizeof what, "%s: ", text_of(transport, "name"));
  print_available(printer, what, words, text_of(transport, "reach"), transport);
  if (text_of(transport, "nics")[0])
    say(printer, "NICs of %s: %s", text_of(transport, "name"), text_of(transport, "nics"));
  if (!kernels[0])
    return;
  char *variants = join(json_object_get(transport, "variants"));
  say(printer, "kernels: %s; those that run here: %s", kernels, variants ? variants : "");
  free(variants);
}

static void print_transports(struct printer *printer, const json_t *transports) {
  heading(printer, "Transports");
  const json_t *transport;
  size_t i;
  json_array_foreach(transports, i, transport) {
    print_transport(printer, transport);
  }
}

static void print_gpu(struct printer *printer, const json_t *gpu) {
  if (*text_of(gpu, "error"))
    say(printer, "%" JSON_INTEGER_FORMAT ": %s", number_of(gpu, "index"), text_of(gpu, "error"));
  else
    say(printer,
        "%" JSON_INTEGER_FORMAT ": %s at %s, %.0f GiB, %" JSON_INTEGER_FORMAT
        " processors, compute capability %s%s; GPU-%s",
        number_of(gpu, "index"), text_of(gpu, "name"), text_of(gpu, "pci"),
        (double)number_of(gpu, "memory_bytes") / (1 << 30), number_of(gpu, "processors"),
        text_of(gpu, "compute_capability"),
        json_is_true(json_object_get(gpu, "windows")) ? "" : ", cannot share its memory between processes",
        text_of(gpu, "uuid"));
}

static void print_gpus(struct printer *printer, const json_t *gpus) {
  static const char *words[] = {"none", ""};
  heading(printer, "GPUs");
  if (!json_is_true(json_object_get(gpus, "available")))
    print_available(printer, "", words, "", gpus);
  const json_t *gpu;
  size_t i;
  json_array_foreach(json_object_get(gpus, "devices"), i, gpu) {
    print_gpu(printer, gpu);
  }
}

static void print_host(struct printer *printer, const json_t *host) {
  struct text line = {0};
  heading(printer, "Host");
  say(printer, "%s, %s, boot %s", text_of(host, "host"), text_of(host, "kernel"), text_of(host, "boot_id"));
  if (*text_of(host, "cpu_model"))
    say(printer, "%s", text_of(host, "cpu_model"));
  if (json_object_get(host, "packages"))
    text_add(&line, "packages: %" JSON_INTEGER_FORMAT ", NUMA nodes: %zu, cores: %" JSON_INTEGER_FORMAT ", ",
             number_of(host, "packages"), json_array_size(json_object_get(host, "numa_nodes")),
             number_of(host, "cores"));
  say(printer, "%sthreads: %" JSON_INTEGER_FORMAT ", memory: %.1f GiB (from %s)", line.data ? line.data : "",
      number_of(host, "threads"), (double)number_of(host, "memory_bytes") / (1 << 30), text_of(host, "source"));
  printer->failed |= line.failed;
  text_free(&line);
}

static void print_numa_and_caches(struct printer *printer, const json_t *host) {
  const json_t *row;
  size_t i;
  json_array_foreach(json_object_get(host, "numa_nodes"), i, row) {
    fprintf(printer->out, "NUMA node %" JSON_INTEGER_FORMAT ": processors %s, %.1f GiB\n", number_of(row, "node"),
            text_of(row, "cpus"), (double)number_of(row, "memory_bytes") / (1 << 30));
  }
  json_array_foreach(json_object_get(host, "caches"), i, row) {
    fprintf(printer->out, "L%" JSON_INTEGER_FORMAT " cache: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " KiB\n",
            number_of(row, "level"), number_of(row, "count"), number_of(row, "bytes") / 1024);
  }
}

static void print_devices(struct printer *printer, const json_t *devices) {
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
    table_add(&table, TABLE_PLAIN, "%s", text_of(row, "address"));
    table_add(&table, TABLE_PLAIN, "%s", text_of(row, "kind"));
    table_add(&table, TABLE_PLAIN, "%s:%s", text_of(row, "vendor"), text_of(row, "device"));
    if (node)
      table_add(&table, TABLE_PLAIN, "%" JSON_INTEGER_FORMAT, json_integer_value(node));
    else
      table_add(&table, TABLE_PLAIN, "-");
    char *names = join(json_object_get(row, "names"));
    table_add(&table, TABLE_PLAIN, "%s", names ? names : "");
    free(names);
    table_add(&table, TABLE_PLAIN, "%s", text_of(row, "name"));
  }
  if (table.num_rows > 0)
    heading(printer, "Devices");
  print_table(printer, &table);
}

static void print_interfaces(struct printer *printer, const json_t *interfaces) {
  static const struct table_column columns[] = {{.heading = "interface"},
                                                {.heading = "state"},
                                                {.heading = "MTU", .right = true},
                                                {.heading = "Mbit/s", .right = true}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof columns[0]};
  const json_t *row;
  size_t i;
  json_array_foreach(interfaces, i, row) {
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%s", text_of(row, "name"));
    table_add(&table, TABLE_PLAIN, "%s", text_of(row, "state"));
    table_add(&table, TABLE_PLAIN, "%" JSON_INTEGER_FORMAT, number_of(row, "mtu"));
    if (json_object_get(row, "mbit_s"))
      table_add(&table, TABLE_PLAIN, "%" JSON_INTEGER_FORMAT, number_of(row, "mbit_s"));
    else
      table_add(&table, TABLE_PLAIN, "-");
  }
  heading(printer, "Network interfaces");
  print_table(printer, &table);
}

static void print_limits(struct printer *printer, const json_t *limits) {
  static const struct table_column columns[] = {
      {.heading = "limit"}, {.heading = "value", .right = true}, {.heading = "meaning", .wrap = true}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof columns[0]};
  const json_t *row;
  size_t i;
  json_array_foreach(limits, i, row) {
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%s", text_of(row, "name"));
    if (json_is_null(json_object_get(row, "value")))
      table_add(&table, TABLE_PLAIN, "unlimited");
    else
      table_add(&table, TABLE_PLAIN, "%" JSON_INTEGER_FORMAT, number_of(row, "value"));
    table_add(&table, TABLE_DIM, "%s", text_of(row, "meaning"));
  }
  heading(printer, "Limits");
  print_table(printer, &table);
}

// An option with another name has that in the line below. The default is shown where it is not the value.
static void add_option(struct table *table, const json_t *row) {
  bool environment = strcmp(text_of(row, "source"), "environment") == 0;
  bool unset = strcmp(text_of(row, "source"), "unset") == 0;
  enum table_style style = environment ? TABLE_CYAN : unset ? TABLE_DIM : TABLE_PLAIN;
  const char *alias = text_of(row, "alias");
  table_row(table);
  table_add(table, TABLE_PLAIN, "%s%s", text_of(row, "option"), *alias ? "," : "");
  table_add(table, TABLE_PLAIN, "%s", text_of(row, "variable"));
  table_add(table, style, "%s", text_of(row, unset ? "default" : "value"));
  table_add(table, style, "%s", text_of(row, "source"));
  table_add(table, TABLE_DIM, "%s", environment ? text_of(row, "default") : "");
  if (*alias)
    table_note(table, 0, TABLE_PLAIN, "%s", alias);
  if (*text_of(row, "error"))
    table_note(table, 1, TABLE_RED, "wrong: %s", text_of(row, "error"));
}

static void print_options(struct printer *printer, const json_t *options) {
  static const struct table_column columns[] = {{.heading = "option"},
                                                {.heading = "variable"},
                                                {.heading = "value", .wrap = true},
                                                {.heading = "from"},
                                                {.heading = "default", .wrap = true}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof columns[0]};
  const char *command = "";
  const json_t *row;
  size_t i;
  json_array_foreach(options, i, row) {
    if (strcmp(command, text_of(row, "command")) != 0)
      table_note(&table, 0, TABLE_BOLD, "weft %s", text_of(row, "command"));
    command = text_of(row, "command");
    add_option(&table, row);
  }
  heading(printer, "Options");
  print_table(printer, &table);
}

static void print_variables(struct printer *printer, const json_t *variables, const json_t *unknown) {
  static const struct table_column columns[] = {{.heading = "variable"},
                                                {.heading = "default", .wrap = true},
                                                {.heading = "value", .wrap = true},
                                                {.heading = "meaning", .wrap = true}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof columns[0]};
  const json_t *row;
  size_t i;
  json_array_foreach(variables, i, row) {
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%s", text_of(row, "variable"));
    table_add(&table, TABLE_DIM, "%s", text_of(row, "default"));
    table_add(&table, TABLE_CYAN, "%s", text_of(row, "value"));
    table_add(&table, TABLE_DIM, "%s", text_of(row, "help"));
    if (*text_of(row, "error"))
      table_note(&table, 1, TABLE_RED, "wrong: %s", text_of(row, "error"));
  }
  heading(printer, "Other variables");
  print_table(printer, &table);
  json_array_foreach(unknown, i, row) {
    const char *meant = text_of(row, "meant");
    say(printer, "%s is set but means nothing%s%s%s", text_of(row, "variable"), *meant ? "; did you mean " : "", meant,
        *meant ? "?" : "");
  }
}

int cli_info_print(FILE *out, const json_t *info, struct cli_terminal terminal, bool topology) {
  struct printer printer = {.out = out, .look = {terminal.color, terminal.unicode, terminal.width}};
  const json_t *host = json_object_get(info, "host");
  fprintf(out, "weft %s\n", text_of(info, "version"));
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
    say(&printer, "threads that drive transports run %s", text_of(info, "threads"));
  }
  print_limits(&printer, json_object_get(info, "limits"));
  print_options(&printer, json_object_get(info, "options"));
  print_variables(&printer, json_object_get(info, "variables"), json_object_get(info, "unknown_variables"));
  return printer.failed ? fail(WEFT_ERR_NOMEM, "no memory for a table") : 0;
}
