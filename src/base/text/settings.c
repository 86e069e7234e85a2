// Reads settings of the form "name=value".
#include "base/text/settings.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

static const char *value_of(const char *setting, const char *name) {
  size_t length = strlen(name);
  return strncmp(setting, name, length) == 0 && setting[length] == '=' ? setting + length + 1 : NULL;
}

const char *settings_value(const char *const *settings, const char *name) {
  const char *value = NULL;
  for (; settings && *settings; settings++) {
    const char *this_one = value_of(*settings, name);
    value = this_one ? this_one : value;
  }
  return value;
}

static bool is_known(const char *setting, const struct settings_number *numbers, const char *const *others) {
  for (; numbers->name; numbers++)
    if (value_of(setting, numbers->name))
      return true;
  for (; *others; others++)
    if (value_of(setting, *others))
      return true;
  return false;
}

// The text has only the name of the wrong setting: its value may be a secret.
static int unknown(const char *setting, const char *of, const struct settings_number *numbers,
                   const char *const *others) {
  char names[400] = "";
  size_t used = 0;
  for (; *others && used < sizeof names; others++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", *others);
  for (; numbers->name && used < sizeof names; numbers++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", numbers->name);
  return fail(WEFT_ERR_INVALID, "%s has no setting \"%.*s\"; it has %s", of, (int)strcspn(setting, "="), setting,
              names);
}

static int read_number(const char *const *settings, const struct settings_number *number) {
  const char *text = settings_value(settings, number->name);
  if (!text)
    return 0;
  char *end;
  unsigned long long value = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || value < number->least || value > number->most)
    return fail(WEFT_ERR_INVALID, "%s=%s: want a number from %llu to %llu", number->name, text,
                (unsigned long long)number->least, (unsigned long long)number->most);
  *number->value = value;
  return 0;
}

int settings_read(const char *const *settings, const char *of, const struct settings_number *numbers,
                  const char *const *others) {
  for (const char *const *setting = settings; setting && *setting; setting++)
    if (!is_known(*setting, numbers, others))
      return unknown(*setting, of, numbers, others);
  int rc = 0;
  for (; rc == 0 && numbers->name; numbers++)
    rc = read_number(settings, numbers);
  return rc;
}
