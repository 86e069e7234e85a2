// Keys, how workers are called in messages, and in which setting two of them differ.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "meet/state.h"

void meet_key(const struct meet *meet, char *key, const char *format, ...) {
  va_list args;
  int size = snprintf(key, MEET_KEY_SIZE, "%s", meet->prefix);
  va_start(args, format);
  vsnprintf(key + size, MEET_KEY_SIZE - (size_t)size, format, args);
  va_end(args);
}

void meet_add_name(const struct meet *meet, uint32_t rank, struct text *out) {
  const struct meet_worker *worker = &meet->workers[rank];
  text_add(out, "rank %u", rank);
  if (worker->host)
    text_add(out, " on %s (process %lld)", worker->host, (long long)worker->pid);
}

// The name of the first setting that one has otherwise, or not at all; NULL: they are equal.
static const char *first_difference(const json_t *mine, const json_t *theirs) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)mine, name, value) {
    if (!json_equal(value, json_object_get(theirs, name)))
      return name;
  }
  json_object_foreach((json_t *)theirs, name, value) {
    if (!json_object_get(mine, name))
      return name;
  }
  return NULL;
}

bool meet_same_settings(const struct meet *meet, const struct meet_worker *worker) {
  return !first_difference(meet->settings, worker->settings);
}

enum { VALUE_SHOWN = 200 }; // characters of a value in an error

static char *show(const json_t *value) {
  return value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : strdup("not set");
}

char *meet_difference(const struct meet *meet, uint32_t rank) {
  const struct meet_worker *other = &meet->workers[rank];
  const char *name = first_difference(meet->settings, other->settings);
  struct text text = {0};
  char *mine = show(json_object_get(meet->settings, name)), *theirs = show(json_object_get(other->settings, name));
  text_add(&text, "%s is %.*s here, at rank %u on %s, and %.*s at ", name, VALUE_SHOWN, mine ? mine : "?", meet->rank,
           meet->host, VALUE_SHOWN, theirs ? theirs : "?");
  meet_add_name(meet, rank, &text);
  free(mine);
  free(theirs);
  return text_take(&text);
}

int meet_settings_differ(const struct meet *meet) {
  return fail(WEFT_ERR_INVALID,
              "the workers were started with other settings: %s; want the same at all workers of a benchmark",
              meet->difference ? meet->difference : "there is no memory to say which");
}
