// What may be written to a stream: colours, and characters beyond ASCII. Decided here and nowhere else.
#ifndef CLI_PROCESS_TERMINAL_H
#define CLI_PROCESS_TERMINAL_H

#include <stdbool.h>

enum cli_terminal_color { TERMINAL_AUTO, TERMINAL_ALWAYS, TERMINAL_NEVER };

// The values of a --color option.
extern const char *const cli_terminal_color_names[];

struct cli_terminal {
  bool color;   // ANSI escapes
  bool unicode; // the locale's characters are UTF-8
};

// AUTO means colour when `descriptor` is a terminal that can show it (TERM is neither unset nor "dumb") and NO_COLOR is
// unset or empty. Needs the locale of the environment to be set.
struct cli_terminal cli_terminal_of(int descriptor, enum cli_terminal_color color);

#endif
