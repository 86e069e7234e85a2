// Checks whether a measurement was made on this hardware: a description is kept with the figures, and compared.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "limits/hardware/hardware.h"

enum { SHOWN = 100 };

static char *list_caches(const struct limits_hardware *hardware) {
  struct text text = {0};
  for (int level = 1; level <= HARDWARE_CACHES; level++)
    if (hardware->caches[level].bytes > 0)
      text_add(&text, "%sL%d %" PRIu64 " KiB", text.size > 0 ? ", " : "", level, hardware->caches[level].bytes >> 10);
  return text_take(&text);
}

// Lists the NICs without their speeds, since another cable does not change the measurements.
static char *list_nics(const struct topology_choice *choice) {
  struct text text = {0};
  for (size_t i = 0; i < choice->num_nics; i++)
    text_add(&text, "%s%s %04x:%04x", i > 0 ? ", " : "", choice->nics[i].address, choice->nics[i].vendor,
             choice->nics[i].device);
  return text_take(&text);
}

static char *list_gpus(const struct topology_choice *choice) {
  struct text text = {0};
  for (size_t i = 0; i < choice->num_gpus; i++)
    text_add(&text, "%s%s %04x:%04x", i > 0 ? ", " : "", choice->gpus[i].address, choice->gpus[i].vendor,
             choice->gpus[i].device);
  return text_take(&text);
}

// Memory is in GiB, since different kernel versions reserve some MiB more or less.
json_t *limits_hardware_describe(const struct limits_hardware *hardware) {
  char *caches = list_caches(hardware), *nics = list_nics(hardware->choice), *gpus = list_gpus(hardware->choice);
  json_t *out = json_pack("{s:s, s:s, s:i, s:I, s:s, s:i, s:s, s:s}", "machine", hardware->machine, "cpu",
                          hardware->cpu, "nodes", (int)hardware->nodes, "memory_gib",
                          (json_int_t)((hardware->memory_bytes + (1u << 29)) >> 30), "caches", caches ? caches : "",
                          "processors", (int)hardware->processors, "nics", nics ? nics : "", "gpus", gpus ? gpus : "");
  free(caches);
  free(nics);
  free(gpus);
  return out;
}

static void show(const json_t *value, char out[SHOWN]) {
  if (json_is_integer(value))
    snprintf(out, SHOWN, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  else
    snprintf(out, SHOWN, "\"%s\"", json_is_string(value) ? json_string_value(value) : "");
}

// With fewer processors than at the measurement, the measured bounds are still valid.
static bool equal(const char *key, const json_t *kept, const json_t *now) {
  if (strcmp(key, "processors") == 0)
    return json_is_integer(kept) && json_integer_value(now) <= json_integer_value(kept);
  return json_equal(kept, now);
}

bool limits_hardware_is(const struct limits_hardware *hardware, const json_t *kept, char *why, size_t cap) {
  char before[SHOWN], after[SHOWN];
  json_t *now = limits_hardware_describe(hardware), *value;
  const char *key;
  bool same = now != NULL;
  json_object_foreach(now, key, value) {
    const json_t *old = json_object_get(kept, key);
    if (equal(key, old, value))
      continue;
    same = false;
    show(old, before);
    show(value, after);
    if (strcmp(key, "machine") == 0)
      snprintf(why, cap, "they are of another host");
    else
      snprintf(why, cap, "they are of other hardware: %s was %s, and is now %s", key, before, after);
    break;
  }
  json_decref(now);
  return same;
}
