// Whether a stream shows colours and UTF-8.
#include "cli/process/terminal.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const cli_terminal_color_names[] = {"auto", "always", "never", NULL};

static bool shows_color(int descriptor) {
  const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
  if (no_color && *no_color)
    return false;
  return isatty(descriptor) && term && *term && strcmp(term, "dumb") != 0;
}

struct cli_terminal cli_terminal_of(int descriptor, enum cli_terminal_color color) {
  return (struct cli_terminal){
      .color = color == TERMINAL_AUTO ? shows_color(descriptor) : color == TERMINAL_ALWAYS,
      .unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
  };
}
