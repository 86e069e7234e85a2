// Converts the shared part of the configuration to JSON and back.
#include "run/common/config_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

enum { MAX_WORDS = 4 };

// A field with a number, or with one of a few words that stand for the numbers from `first` on.
struct field {
  const char *name;
  size_t offset;
  const char *words[MAX_WORDS];
  unsigned first;
};

#define NUMBER(field)                                                                                                  \
  { #field, offsetof(struct run_config, field), {NULL }, 0 }

static const struct field numbers[] = {
    NUMBER(num_agents), NUMBER(num_tokens), NUMBER(experts_per_rank),    NUMBER(hidden),     NUMBER(topk),
    NUMBER(timeout_ms), NUMBER(warmup),     NUMBER(startup_timeout_s),   NUMBER(iterations), NUMBER(window_bytes),
    NUMBER(alignment),  NUMBER(processors), NUMBER(operations_per_step), NUMBER(left_out),
};

static const struct field choices[] = {
    {"dtype", offsetof(struct run_config, dtype), {"bf16", "fp8", "fp8-pow2", "fp8-ue8m0"}, WEFT_EP_BF16},
    {"combine_dtype", offsetof(struct run_config, combine_dtype), {"bf16", "logfmt10"}, WEFT_EP_COMBINE_BF16},
    {"layout", offsetof(struct run_config, layout), {"per-expert", "rank-major", "packed"}, WEFT_EP_PER_EXPERT},
    {"mode", offsetof(struct run_config, mode), {"latency", "throughput"}, WEFT_EP_LATENCY},
    {"memory", offsetof(struct run_config, memory), {"host", "cuda", "auto"}, 0},
    {"negative", offsetof(struct run_config, negative), {"kill", "leave", "lost"}, 0},
    {"agents", offsetof(struct run_config, agents), {"fixed", "elastic"}, 0},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

_Static_assert(sizeof(enum weft_ep_dtype) == sizeof(unsigned) &&
                   sizeof(enum weft_ep_combine_dtype) == sizeof(unsigned) &&
                   sizeof(enum weft_ep_layout) == sizeof(unsigned) && sizeof(enum weft_ep_memory) == sizeof(unsigned) &&
                   sizeof(enum weft_ep_mode) == sizeof(unsigned) && sizeof(enum run_negative) == sizeof(unsigned) &&
                   sizeof(enum run_agents) == sizeof(unsigned),
               "choices are read and written as unsigned");

json_t *run_settings_to_json(const struct run_config *config) {
  json_t *json = json_object();
  int failed = json == NULL;
  for (size_t i = 0; i < COUNT(numbers); i++) {
    uint32_t value;
    memcpy(&value, (const char *)config + numbers[i].offset, sizeof value);
    failed |= json_object_set_new(json, numbers[i].name, json_integer(value));
  }
  for (size_t i = 0; i < COUNT(choices); i++) {
    unsigned value;
    memcpy(&value, (const char *)config + choices[i].offset, sizeof value);
    failed |= json_object_set_new(json, choices[i].name, json_string(choices[i].words[value - choices[i].first]));
  }
  // A string: JSON readers need not keep all 64 bits of a number.
  failed |= json_object_set_new(json, "seed", json_sprintf("%" PRIu64, config->seed));
  failed |= json_object_set_new(json, "validate_phase_failures", json_boolean(config->validate_phase_failures));
  failed |= json_object_set_new(json, "digests", json_boolean(config->digests));
  if (failed) {
    json_decref(json);
    return NULL;
  }
  return json;
}

static int read_choice(struct run_config *config, const struct field *field, const char *word) {
  for (unsigned i = 0; word && i < MAX_WORDS && field->words[i]; i++) {
    if (strcmp(word, field->words[i]) == 0) {
      unsigned value = field->first + i;
      memcpy((char *)config + field->offset, &value, sizeof value);
      return 0;
    }
  }
  return fail(WEFT_ERR_PROTOCOL, "run settings: '%s' is missing or not one of its values", field->name);
}

static int read_seed(uint64_t *seed, const char *text) {
  if (!text || !*text || text[strspn(text, "0123456789")])
    return -1;
  errno = 0;
  *seed = strtoull(text, NULL, 10);
  return errno ? -1 : 0;
}

int run_settings_from_json(struct run_config *config, const json_t *json) {
  struct run_config read = *config;
  for (size_t i = 0; i < COUNT(numbers); i++) {
    const json_t *number = json_object_get(json, numbers[i].name);
    json_int_t value = json_integer_value(number);
    if (!json_is_integer(number) || value < 0 || value > UINT32_MAX)
      return fail(WEFT_ERR_PROTOCOL, "run settings: '%s' is missing or not a 32-bit number", numbers[i].name);
    uint32_t small = (uint32_t)value;
    memcpy((char *)&read + numbers[i].offset, &small, sizeof small);
  }
  for (size_t i = 0; i < COUNT(choices); i++) {
    int err = read_choice(&read, &choices[i], json_string_value(json_object_get(json, choices[i].name)));
    if (err)
      return err;
  }
  const char *seed = json_string_value(json_object_get(json, "seed"));
  const json_t *validate = json_object_get(json, "validate_phase_failures"),
               *digests = json_object_get(json, "digests");
  if (read_seed(&read.seed, seed))
    return fail(WEFT_ERR_PROTOCOL, "run settings: 'seed' is missing or not a decimal number of 64 bits in a string");
  if (!json_is_boolean(validate) || !json_is_boolean(digests))
    return fail(WEFT_ERR_PROTOCOL, "run settings: '%s' is missing or not true or false",
                json_is_boolean(validate) ? "digests" : "validate_phase_failures");
  read.validate_phase_failures = json_is_true(validate);
  read.digests = json_is_true(digests);
  *config = read;
  return 0;
}

// The JSON name of the field at `offset`. NULL: the field is not shared, or a follower uses its own value.
static const char *shared_name(size_t offset) {
  if (offset == offsetof(struct run_config, num_agents) || offset == offsetof(struct run_config, startup_timeout_s))
    return NULL;
  for (size_t i = 0; i < COUNT(numbers); i++)
    if (numbers[i].offset == offset)
      return numbers[i].name;
  for (size_t i = 0; i < COUNT(choices); i++)
    if (choices[i].offset == offset)
      return choices[i].name;
  return offset == offsetof(struct run_config, seed)                      ? "seed"
         : offset == offsetof(struct run_config, validate_phase_failures) ? "validate_phase_failures"
         : offset == offsetof(struct run_config, digests)                 ? "digests"
                                                                          : NULL;
}

static int check_given(const struct run_given *given, const json_t *own, const json_t *lead) {
  const char *name = shared_name(given->offset), *word = name ? json_string_value(json_object_get(own, name)) : NULL;
  const json_t *here = json_object_get(own, name ? name : ""), *there = json_object_get(lead, name ? name : "");
  if (!name || json_equal(here, there) || (word && strcmp(word, "auto") == 0)) // the lead has chosen a value for it
    return 0;
  char *one = json_dumps(here, JSON_ENCODE_ANY), *other = json_dumps(there, JSON_ENCODE_ANY);
  int err = fail(WEFT_ERR_INVALID,
                 "--%s is %s here, but %s at the lead, which decides: give the same value, or omit the option",
                 given->option, one ? one : "?", other ? other : "?");
  free(one);
  free(other);
  return err;
}

int run_settings_check_given(const struct run_config *config, const json_t *lead) {
  json_t *own = run_settings_to_json(config);
  int err = own ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the settings");
  for (uint32_t i = 0; i < config->num_given && !err; i++)
    err = check_given(&config->given[i], own, lead);
  json_decref(own);
  return err;
}
