// The words that mean yes or no as the value of a flag.
#include "base/text/yes_no.h"

#include <stddef.h>
#include <string.h>

bool yes_no_read(const char *text, bool *value) {
  static const char *const words[][2] = {{"no", "yes"}, {"false", "true"}, {"0", "1"}, {"off", "on"}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    for (int yes = 0; yes < 2; yes++)
      if (strcmp(text, words[i][yes]) == 0) {
        *value = yes;
        return true;
      }
  return false;
}
