// Settings: "name=value", in lists that end with NULL. Where a name stands twice the last one counts.
#ifndef BASE_TEXT_SETTINGS_H
#define BASE_TEXT_SETTINGS_H

#include <stdint.h>

struct settings_number {
  const char *name; // NULL ends a table
  uint64_t least, most;
  uint64_t *value; // stays when there is no such setting
};

// The value, or NULL. `settings` may be NULL.
const char *settings_value(const char *const *settings, const char *name);

// Reads the numbers. INVALID: one is not within its bounds, or a setting has neither a name of the table nor one of
// `others` [NULL at the end]. `of`: whose they are, for the words.
int settings_read(const char *const *settings, const char *of, const struct settings_number *numbers,
                  const char *const *others);

#endif
