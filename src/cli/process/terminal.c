// Finds out whether a stream shows colours and UTF-8, and its width.
#include "cli/process/terminal.h"

#include <ctype.h>
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LEAST_WIDTH = 60, MOST_WIDTH = 10000 }; // narrower text would be unreadable

const char *const cli_terminal_color_names[] = {"auto", "always", "never", NULL};

static bool shows_color(int descriptor) {
  const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
  if (no_color && *no_color)
    return false;
  return isatty(descriptor) && term && *term && strcmp(term, "dumb") != 0;
}

static size_t width_of(int descriptor) {
  const char *columns = getenv("COLUMNS");
  unsigned long asked = columns && isdigit((unsigned char)*columns) ? strtoul(columns, NULL, 10) : 0;
  struct winsize size;
  if (asked > 0)
    return asked < LEAST_WIDTH ? LEAST_WIDTH : asked < MOST_WIDTH ? asked : MOST_WIDTH;
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col < LEAST_WIDTH ? LEAST_WIDTH : size.ws_col;
  return CLI_TERMINAL_WIDTH;
}

struct cli_terminal cli_terminal_of(int descriptor, enum cli_terminal_color color) {
  return (struct cli_terminal){
      .color = color == TERMINAL_AUTO ? shows_color(descriptor) : color == TERMINAL_ALWAYS,
      .unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
      .width = width_of(descriptor),
  };
}

size_t cli_terminal_prose(struct cli_terminal terminal) {
  return terminal.width < CLI_TERMINAL_WIDTH ? terminal.width : CLI_TERMINAL_WIDTH;
}
