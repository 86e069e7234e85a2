// Writes manual pages and completion scripts to the folders where man and the shells look for them.
#ifndef CLI_COMPLETION_INSTALL_H
#define CLI_COMPLETION_INSTALL_H

#include "cli/command/command.h"

// Writes the files below `folder`, in place of /usr/share; makes missing folders. Returns 0, or a negative weft_err
// with a last error that names the file.
int cli_completion_install(const char *folder, const struct cli_command *const *list);

#endif
