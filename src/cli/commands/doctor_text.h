// Prints the text of `weft doctor`.
#ifndef CLI_COMMANDS_DOCTOR_TEXT_H
#define CLI_COMMANDS_DOCTOR_TEXT_H

#include <stdio.h>

#include "cli/process/terminal.h"
#include "doctor/report/report.h"

void cli_doctor_print(FILE *out, const struct doctor_report *report, struct cli_terminal terminal);

#endif
