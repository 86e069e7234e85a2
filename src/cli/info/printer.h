// Functions that the parts of the text of `weft info` share.
#ifndef CLI_INFO_PRINTER_H
#define CLI_INFO_PRINTER_H

#include "base/text/table.h"

#include <jansson.h>
#include <stdio.h>

enum { CLI_INFO_INDENT = 4 }; // indentation of continued lines

struct cli_info_printer {
  FILE *out;
  struct table_look look;
  bool failed; // memory ran out
};

// A member of an object; "" if it is not a string, 0 if it is not an integer.
const char *cli_info_member(const json_t *object, const char *key);
json_int_t cli_info_number(const json_t *object, const char *key);

// The strings of an array with commas between them; the caller frees the text. NULL: memory ran out.
char *cli_info_join(const json_t *strings);

// Prints a sentence or a list; further lines are indented.
void cli_info_say(struct cli_info_printer *printer, const char *format, ...) __attribute__((format(printf, 2, 3)));

void cli_info_heading(struct cli_info_printer *printer, const char *text);

// Prints the table and frees it.
void cli_info_print_table(struct cli_info_printer *printer, struct table *table);

// Prints the options of every command, and the other variables: known and unknown ones.
void cli_info_print_options(struct cli_info_printer *printer, const json_t *options);
void cli_info_print_variables(struct cli_info_printer *printer, const json_t *variables, const json_t *unknown);

#endif
