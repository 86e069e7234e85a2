// Functions that the parts of the text share.
#include "cli/info/printer.h"

#include "base/text/text.h"
#include "base/text/wrap.h"

#include <stdarg.h>
#include <stdlib.h>

const char *cli_info_member(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

json_int_t cli_info_number(const json_t *object, const char *key) {
  return json_integer_value(json_object_get(object, key));
}

void cli_info_say(struct cli_info_printer *printer, const char *format, ...) {
  va_list args;
  char *text = NULL;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0)
    printer->failed = true;
  else
    wrap_write(printer->out, text, 0, CLI_INFO_INDENT, printer->look.width);
  va_end(args);
  free(text);
}

void cli_info_heading(struct cli_info_printer *printer, const char *text) {
  fputc('\n', printer->out);
  table_print_text(printer->out, printer->look.color, TABLE_BOLD, text, 0);
  fputc('\n', printer->out);
}

char *cli_info_join(const json_t *strings) {
  struct text joined = {0};
  const json_t *string;
  size_t i;
  json_array_foreach(strings, i, string) {
    text_add(&joined, "%s%s", i ? ", " : "", json_string_value(string));
  }
  return text_take(&joined);
}

void cli_info_print_table(struct cli_info_printer *printer, struct table *table) {
  printer->failed |= table->failed;
  table_print(printer->out, table, &printer->look);
  table_free(table);
}
