// What may be written to a stream: colours, characters beyond ASCII, and how wide. Decided here and nowhere else.
#ifndef CLI_PROCESS_TERMINAL_H
#define CLI_PROCESS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

enum { CLI_TERMINAL_WIDTH = 100 }; // the text of files and pipes, and of explanations on wider terminals

enum cli_terminal_color { TERMINAL_AUTO, TERMINAL_ALWAYS, TERMINAL_NEVER };

// The values of a --color option.
extern const char *const cli_terminal_color_names[];

struct cli_terminal {
  bool color;   // ANSI escapes
  bool unicode; // the locale's characters are UTF-8
  size_t width; // columns of a line
};

// AUTO means colour when `descriptor` is a terminal that can show it (TERM is neither unset nor "dumb") and NO_COLOR is
// unset or empty. The width is that of the terminal, COLUMNS before it, and CLI_TERMINAL_WIDTH where neither is known.
// Needs the locale of the environment to be set.
struct cli_terminal cli_terminal_of(int descriptor, enum cli_terminal_color color);

// The width of explanations, which nobody reads easily in longer lines than CLI_TERMINAL_WIDTH.
size_t cli_terminal_prose(struct cli_terminal terminal);

#endif
