// Reads the settings of the transport fault: which faults, how often, from which seed.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "transport/fault/fault.h"

// A number of decimal digits, at the front of a text.
static bool read_number(const char **text, uint64_t *number) {
  char *end;
  if (**text < '0' || **text > '9')
    return false;
  *number = strtoull(*text, &end, 10);
  *text = end;
  return true;
}

static bool read_count(struct fault_script *script, const char *rule) {
  static const struct {
    const char *name;
    size_t offset;
  } counts[] = {{"die@", offsetof(struct fault_script, die)},
                {"mute@", offsetof(struct fault_script, mute)},
                {"big@", offsetof(struct fault_script, big)},
                {"reg@", offsetof(struct fault_script, reg)},
                {"cling@", offsetof(struct fault_script, cling)}};
  uint64_t number;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    const char *at = rule + strlen(counts[i].name);
    if (strncmp(rule, counts[i].name, strlen(counts[i].name)) != 0)
      continue;
    if (!read_number(&at, &number) || number == 0 || *at != '\0')
      return false;
    *(uint64_t *)(void *)((char *)script + counts[i].offset) = number;
    return script->cling <= 2;
  }
  return false;
}

static bool read_rule(struct fault_script *script, const char *rule) {
  static const struct {
    const char *name;
    size_t offset;
  } shares[] = {{"delay=", offsetof(struct fault_script, delay)}, {"lose=", offsetof(struct fault_script, lose)},
                {"fail=", offsetof(struct fault_script, fail)},   {"short=", offsetof(struct fault_script, short_)},
                {"spoil=", offsetof(struct fault_script, spoil)}, {"stick=", offsetof(struct fault_script, stick)}};
  uint64_t number;
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
    const char *at = rule + strlen(shares[i].name);
    if (strncmp(rule, shares[i].name, strlen(shares[i].name)) != 0)
      continue;
    if (!read_number(&at, &number) || number > 100)
      return false;
    *(uint32_t *)(void *)((char *)script + shares[i].offset) = (uint32_t)number;
    if (i > 0)
      return *at == '\0';
    if (*at++ != '/' || !read_number(&at, &number) || number == 0 || number > 1000000)
      return false;
    script->delay_ticks = (uint32_t)number;
    return *at == '\0';
  }
  return read_count(script, rule);
}

int fault_script_read(struct fault_script *script, const char *text, size_t size) {
  char copy[128], *rest = NULL;
  *script = (struct fault_script){0};
  if (size == 0 || size >= sizeof copy)
    return fail(WEFT_ERR_INVALID, "a script of faults has 1 to %zu characters, \"none\" if there are none",
                sizeof copy - 1);
  memcpy(copy, text, size);
  copy[size] = '\0';
  if (strcmp(copy, "none") == 0)
    return 0;
  for (char *rule = strtok_r(copy, "+", &rest); rule; rule = strtok_r(NULL, "+", &rest))
    if (!read_rule(script, rule))
      return fail(
          WEFT_ERR_INVALID,
          "\"%s\" is not a rule of faults: delay=P/T, lose=P, fail=P, short=P, spoil=P, stick=P, die@N, mute@N, "
          "big@N, reg@N and cling@N are",
          rule);
  return 0;
}
