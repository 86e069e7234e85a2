// The words that mean yes or no as the value of a flag.
#ifndef BASE_TEXT_YES_NO_H
#define BASE_TEXT_YES_NO_H

#include <stdbool.h>

// Whether the text is yes, true, 1 or on (`*value` is then true), or no, false, 0 or off (false).
bool yes_no_read(const char *text, bool *value);

#endif
