// The text of `weft info`.
#ifndef CLI_INFO_TEXT_H
#define CLI_INFO_TEXT_H

#include "cli/process/terminal.h"

#include <jansson.h>
#include <stdio.h>

// Prints the JSON of `weft info`; all of the host with `topology`, else only its first lines. NOMEM.
int cli_info_print(FILE *out, const json_t *info, struct cli_terminal terminal, bool topology);

// Prints its part about NICs and GPUs: what topology_choice_describe() made. NOMEM.
int cli_info_print_choice(FILE *out, const json_t *choice, struct cli_terminal terminal);

#endif
