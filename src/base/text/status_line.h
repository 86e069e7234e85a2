// A line on a terminal's standard error that is written again and again while something goes on.
#ifndef BASE_TEXT_STATUS_LINE_H
#define BASE_TEXT_STATUS_LINE_H

#include <stdbool.h>

struct status_line {
  bool live;  // standard error is a terminal that can take a line away
  bool shown; // the line stands there
};

// A quiet one is never live.
void status_line_open(struct status_line *line, bool quiet);
// Writes the text in the place of the last one, cut to the columns of the terminal. Only of a live one.
void status_line_show(struct status_line *line, const char *text);
// Takes the line away, before something else is printed and at the end.
void status_line_hide(struct status_line *line);

#endif
