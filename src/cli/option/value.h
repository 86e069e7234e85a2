// Converts the text of one option's value and stores it in the field.
#ifndef CLI_OPTION_VALUE_H
#define CLI_OPTION_VALUE_H

#include "cli/option/option.h"

// Checks `text` and stores its value in the row's field of `target`. INVALID: the error says what is wrong and what
// would be right, without the option's name.
int cli_option_value_set(const struct cli_option *row, const char *text, void *target);

#endif
