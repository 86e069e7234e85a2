// A record for each figure compared, for a spreadsheet (RFC 4180).
#include <errno.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/text/csv.h"
#include "base/text/digits.h"
#include "compare/report/words.h"

static void put_number(FILE *out, bool known, double value) {
  fputc(',', out);
  if (known)
    fprintf(out, "%.*g", DIGITS_IN_JSON, digits_rounded(value));
}

// All keys of all lines; the keys that differ come first.
static json_t *all_keys(const struct comparison *comparison) {
  json_t *keys = words_columns(comparison), *seen = json_object(), *value;
  size_t index;
  const char *key;
  json_array_foreach(keys, index, value) json_object_set_new(seen, json_string_value(value), json_true());
  for (size_t i = 0; i < comparison->num_lines; i++)
    json_object_foreach(comparison->lines[i].keys, key, value) {
      if (!json_object_get(seen, key))
        json_array_append_new(keys, json_string(key));
      json_object_set_new(seen, key, json_true());
    }
  json_decref(seen);
  return keys;
}

static void put_line(FILE *out, const struct comparison *comparison, const struct compare_line *line,
                     const json_t *keys) {
  const struct change *change = &line->change;
  bool interval = change->basis != CHANGE_NOTHING;
  size_t index;
  json_t *key;
  json_array_foreach(keys, index, key) {
    char *text = words_key(line->keys, json_string_value(key));
    csv_write_text(out, text ? text : "");
    free(text);
    fputc(',', out);
  }
  csv_write_text(out, line->figure);
  fprintf(out, ",%s,%s,", line->unit, line->higher ? "higher" : "lower");
  csv_write_text(out, comparison->runs[line->run].label);
  put_number(out, true, change->baseline);
  put_number(out, true, change->value);
  put_number(out, change->has_ratio, 100 * change->ratio);
  put_number(out, interval, 100 * change->low);
  put_number(out, interval, 100 * change->high);
  put_number(out, interval, line->adjusted);
  fprintf(out, ",%s,%s\r\n", compare_verdict_names[line->verdict], line->beyond ? "yes" : "no");
}

int compare_write_csv(FILE *out, const struct comparison *comparison) {
  json_t *keys = all_keys(comparison), *key;
  size_t index;
  json_array_foreach(keys, index, key) {
    csv_write_text(out, json_string_value(key));
    fputc(',', out);
  }
  fputs("figure,unit,better,run,baseline,value,change_percent,low_percent,high_percent,adjusted_chance,verdict,"
        "beyond_limit\r\n",
        out);
  for (size_t i = 0; i < comparison->num_lines; i++)
    put_line(out, comparison, &comparison->lines[i], keys);
  json_decref(keys);
  return fflush(out) == 0 && !ferror(out) ? 0 : fail_errno(errno, "cannot write the comparison");
}
