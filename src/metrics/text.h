// The OpenMetrics text format 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec/): families, each with all of
// its series together, and "# EOF" at the end. Names and help texts must be valid already; values of labels may be any
// text.
#ifndef METRICS_TEXT_H
#define METRICS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/text.h"

// Writes the head of a family; `unit` "": none.
void metrics_put_family(struct text *text, const char *name, const char *type, const char *unit, const char *help);
// Writes name="value" with the value escaped.
void metrics_put_label(struct text *text, const char *name, const char *value);
// Writes a counter's series; `labels`: texts of metrics_put_label() with commas between; "": none.
void metrics_put_count(struct text *text, const char *name, const char *labels, uint64_t value);
// A counter of seconds.
void metrics_put_seconds(struct text *text, const char *name, const char *labels, uint64_t ns);
// The same for a gauge.
void metrics_put_gauge(struct text *text, const char *name, const char *labels, double value);
void metrics_put_end(struct text *text);

// Copies a text to the caller's buffer as the public calls do, and frees the text. `*size` is the room that the text
// needs, its NUL included; a `cap` of 0 asks only for the size. ROOM: `cap` is too small. NOMEM: the text has failed.
// `of`: who has these metrics, for the error text.
int metrics_hand_out(struct text *text, const char *of, char *out, size_t cap, size_t *size);

#endif
