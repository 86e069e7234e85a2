// The OpenMetrics text format 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec/): families, each with all of
// its series together, and "# EOF" at the end. Names and helps are the writer's own; values of labels may be anything.
#ifndef METRICS_TEXT_H
#define METRICS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/text.h"

// The head of a family; `unit` "": none.
void metrics_put_family(struct text *text, const char *name, const char *type, const char *unit, const char *help);
// name="value", escaped.
void metrics_put_label(struct text *text, const char *name, const char *value);
// A counter's series; `labels` as metrics_put_label() wrote them, with commas between; "": none.
void metrics_put_count(struct text *text, const char *name, const char *labels, uint64_t value);
// A counter of seconds.
void metrics_put_seconds(struct text *text, const char *name, const char *labels, uint64_t ns);
// The same for a gauge.
void metrics_put_gauge(struct text *text, const char *name, const char *labels, double value);
void metrics_put_end(struct text *text);

// Hands a text out as the public calls do: `*size` is what it takes, its NUL included; a `cap` of 0 asks for that.
// ROOM: `cap` is less. NOMEM: the text has failed. It frees the text. `of`: whose metrics they are, for the sentence.
int metrics_hand_out(struct text *text, const char *of, char *out, size_t cap, size_t *size);

#endif
