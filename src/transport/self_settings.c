// The settings of transports to storage: name=value.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "transport/self.h"

static const char *value_of(const char *setting, const char *name) {
  size_t length = strlen(name);
  return strncmp(setting, name, length) == 0 && setting[length] == '=' ? setting + length + 1 : NULL;
}

int self_settings_check(const struct transport_options *options, const char *transport, const char *const *names) {
  for (const char *const *setting = options->settings; setting && *setting; setting++) {
    const char *const *name = names;
    while (*name && !value_of(*setting, *name))
      name++;
    if (!*name) // only the name: the value may be a secret
      return fail(WEFT_ERR_INVALID, "the transport %s has no setting \"%.*s\"", transport, (int)strcspn(*setting, "="),
                  *setting);
  }
  return 0;
}

const char *self_setting(const struct transport_options *options, const char *name) {
  const char *value = NULL;
  for (const char *const *setting = options->settings; setting && *setting; setting++) {
    const char *this_one = value_of(*setting, name);
    value = this_one ? this_one : value;
  }
  return value;
}

int self_setting_number(const struct transport_options *options, const char *name, uint64_t least, uint64_t most,
                        uint64_t *value) {
  const char *text = self_setting(options, name);
  if (!text)
    return 0;
  char *end;
  unsigned long long number = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || number < least || number > most)
    return fail(WEFT_ERR_INVALID, "%s=%s: a number from %llu to %llu is wanted", name, text, (unsigned long long)least,
                (unsigned long long)most);
  *value = number;
  return 0;
}
