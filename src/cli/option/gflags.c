// gflags' words for the value of a flag.
#include "cli/option/gflags.h"

#include <stddef.h>
#include <strings.h>

const char *cli_gflags_flag(const char *text) {
  static const char *const words[][2] = {{"f", "t"}, {"false", "true"}, {"n", "y"}, {"no", "yes"}, {"0", "1"}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    for (int yes = 0; yes < 2; yes++)
      if (strcasecmp(text, words[i][yes]) == 0)
        return yes ? "yes" : "no";
  return text;
}
