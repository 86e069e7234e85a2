// The text of `weft info`.
#ifndef CLI_INFO_TEXT_H
#define CLI_INFO_TEXT_H

#include "cli/process/terminal.h"

#include <jansson.h>
#include <stdio.h>

// Prints the JSON of `weft info` as text; with `topology` all of the host, else only its first lines. NOMEM.
int cli_info_print(FILE *out, const json_t *info, struct cli_terminal terminal, bool topology);

// Prints the part about NICs and GPUs: the result of topology_choice_describe(). NOMEM.
int cli_info_print_choice(FILE *out, const json_t *choice, struct cli_terminal terminal);

#endif
