// Secrets of the environment and the command line: taken once, and wiped from where other processes can read them
// (/proc/PID/environ and /proc/PID/cmdline).
#ifndef CLI_PROCESS_SECRETS_H
#define CLI_PROCESS_SECRETS_H

// Takes the secret of this environment variable, of `variable`_FD or of the file `variable`_FILE (secure/secret.h).
// If it cannot be read, cli_secrets_find() reports that, as not every command wants it. [main, before any thread]
void cli_secrets_take(const char *variable);

// `*text`: what was taken, which lives as long as the process, or NULL. INVALID: it could not be read.
int cli_secrets_find(const char *variable, const char **text);

// A copy of an argument, which lives as long as the process; the argument's characters are overwritten. NOMEM.
int cli_secrets_keep(char *argument, const char **text);

// The secret in a file of this user (secure/secret.h), which lives as long as the process.
int cli_secrets_read(const char *path, const char **text);

#endif
