// Options and variables in the text of `weft info`.
#include "cli/info/printer.h"

#include <string.h>

// An option's other name is in the line below it. The default is shown if the value differs from it.
static void add_option(struct table *table, const json_t *row) {
  bool environment = strcmp(cli_info_member(row, "source"), "environment") == 0;
  bool unset = strcmp(cli_info_member(row, "source"), "unset") == 0;
  enum table_style style = environment ? TABLE_CYAN : unset ? TABLE_DIM : TABLE_PLAIN;
  const char *alias = cli_info_member(row, "alias");
  table_row(table);
  table_add(table, TABLE_PLAIN, "%s%s", cli_info_member(row, "option"), *alias ? "," : "");
  table_add(table, TABLE_PLAIN, "%s", cli_info_member(row, "variable"));
  table_add(table, style, "%s", cli_info_member(row, unset ? "default" : "value"));
  table_add(table, style, "%s", cli_info_member(row, "source"));
  table_add(table, TABLE_DIM, "%s", environment ? cli_info_member(row, "default") : "");
  if (*alias)
    table_note(table, 0, TABLE_PLAIN, "%s", alias);
  if (*cli_info_member(row, "error"))
    table_note(table, 1, TABLE_RED, "wrong: %s", cli_info_member(row, "error"));
}

void cli_info_print_options(struct cli_info_printer *printer, const json_t *options) {
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
    if (strcmp(command, cli_info_member(row, "command")) != 0)
      table_note(&table, 0, TABLE_BOLD, "weft %s", cli_info_member(row, "command"));
    command = cli_info_member(row, "command");
    add_option(&table, row);
  }
  cli_info_heading(printer, "Options");
  cli_info_print_table(printer, &table);
}

void cli_info_print_variables(struct cli_info_printer *printer, const json_t *variables, const json_t *unknown) {
  static const struct table_column columns[] = {{.heading = "variable"},
                                                {.heading = "default", .wrap = true},
                                                {.heading = "value", .wrap = true},
                                                {.heading = "meaning", .wrap = true}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof columns[0]};
  const json_t *row;
  size_t i;
  json_array_foreach(variables, i, row) {
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%s", cli_info_member(row, "variable"));
    table_add(&table, TABLE_DIM, "%s", cli_info_member(row, "default"));
    table_add(&table, TABLE_CYAN, "%s", cli_info_member(row, "value"));
    table_add(&table, TABLE_DIM, "%s", cli_info_member(row, "help"));
    if (*cli_info_member(row, "error"))
      table_note(&table, 1, TABLE_RED, "wrong: %s", cli_info_member(row, "error"));
  }
  cli_info_heading(printer, "Other variables");
  cli_info_print_table(printer, &table);
  json_array_foreach(unknown, i, row) {
    const char *meant = cli_info_member(row, "meant");
    cli_info_say(printer, "%s is set but has no meaning%s%s%s", cli_info_member(row, "variable"),
                 *meant ? "; did you mean " : "", meant, *meant ? "?" : "");
  }
}
