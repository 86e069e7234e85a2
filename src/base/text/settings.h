// Settings "name=value", in lists that end with NULL. If a name occurs twice, the last one counts.
#ifndef BASE_TEXT_SETTINGS_H
#define BASE_TEXT_SETTINGS_H

#include <stdint.h>

struct settings_number {
  const char *name; // NULL ends a table
  uint64_t least, most;
  uint64_t *value; // unchanged if there is no such setting
};

// The value, or NULL. `settings` may be NULL.
const char *settings_value(const char *const *settings, const char *name);

// Reads the numbers. INVALID: a number is not within its bounds, or a setting has neither a name of the table nor one
// of `others` [NULL at the end]. `of`: the owner of the settings, for the error text.
int settings_read(const char *const *settings, const char *of, const struct settings_number *numbers,
                  const char *const *others);

#endif
