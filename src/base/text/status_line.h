// A line on standard error of a terminal that is rewritten while work is in progress.
#ifndef BASE_TEXT_STATUS_LINE_H
#define BASE_TEXT_STATUS_LINE_H

#include <stdbool.h>

struct status_line {
  bool live;  // standard error is a terminal that can erase a line
  bool shown; // the line is visible
};

// With `quiet` the line is never live.
void status_line_open(struct status_line *line, bool quiet);
// Replaces the text of the line, cut to the columns of the terminal. Only if the line is live.
void status_line_show(struct status_line *line, const char *text);
// Erases the line, before something else is printed and at the end.
void status_line_hide(struct status_line *line);

#endif
