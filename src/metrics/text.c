// Writes OpenMetrics text.
#include "metrics/text.h"

#include <inttypes.h>
#include <string.h>

#include "base/fail.h"

void metrics_put_family(struct text *text, const char *name, const char *type, const char *unit, const char *help) {
  text_add(text, "# TYPE %s %s\n", name, type);
  if (*unit)
    text_add(text, "# UNIT %s %s\n", name, unit);
  text_add(text, "# HELP %s %s\n", name, help);
}

void metrics_put_label(struct text *text, const char *name, const char *value) {
  text_add(text, "%s=\"", name);
  for (; *value; value++) {
    if (*value == '\\' || *value == '"')
      text_add(text, "\\%c", *value);
    else if (*value == '\n')
      text_add(text, "\\n");
    else
      text_add_bytes(text, value, 1);
  }
  text_add(text, "\"");
}

static void put_name(struct text *text, const char *name, const char *suffix, const char *labels) {
  text_add(text, "%s%s", name, suffix);
  if (*labels)
    text_add(text, "{%s}", labels);
}

void metrics_put_count(struct text *text, const char *name, const char *labels, uint64_t value) {
  put_name(text, name, "_total", labels);
  text_add(text, " %" PRIu64 "\n", value);
}

void metrics_put_seconds(struct text *text, const char *name, const char *labels, uint64_t ns) {
  put_name(text, name, "_total", labels);
  text_add(text, " %.9f\n", (double)ns / 1e9);
}

void metrics_put_gauge(struct text *text, const char *name, const char *labels, double value) {
  put_name(text, name, "", labels);
  text_add(text, " %.9g\n", value);
}

void metrics_put_end(struct text *text) {
  text_add(text, "# EOF\n");
}

int metrics_hand_out(struct text *text, const char *of, char *out, size_t cap, size_t *size) {
  if (text->failed) {
    text_free(text);
    return fail(WEFT_ERR_NOMEM, "no memory for the metrics of %s", of);
  }
  *size = text->size + 1;
  bool fits = *size <= cap;
  if (fits)
    memcpy(out, text->data, *size);
  text_free(text);
  if (fits || cap == 0)
    return 0;
  return fail(WEFT_ERR_ROOM, "the metrics take %zu bytes, but there is room for %zu", *size, cap);
}
