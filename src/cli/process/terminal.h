// What may be written to a stream: colours, characters beyond ASCII, and the width of lines. Only this file decides
// that.
#ifndef CLI_PROCESS_TERMINAL_H
#define CLI_PROCESS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

enum { CLI_TERMINAL_WIDTH = 100 }; // width of text in files and pipes, and of explanations on wider terminals

enum cli_terminal_color { TERMINAL_AUTO, TERMINAL_ALWAYS, TERMINAL_NEVER };

// The values of a --color option.
extern const char *const cli_terminal_color_names[];

struct cli_terminal {
  bool color;   // ANSI escapes
  bool unicode; // the locale's characters are UTF-8
  size_t width; // columns of a line
};

// AUTO means colour when `descriptor` is a terminal that can show it (TERM is neither unset nor "dumb") and NO_COLOR is
// unset or empty. The width is COLUMNS if it is set, else the width of the terminal, else CLI_TERMINAL_WIDTH. The
// caller must have set the locale of the environment.
struct cli_terminal cli_terminal_of(int descriptor, enum cli_terminal_color color);

// The width of explanations: at most CLI_TERMINAL_WIDTH, since longer lines are hard to read.
size_t cli_terminal_prose(struct cli_terminal terminal);

#endif
