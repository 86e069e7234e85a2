// Takes secrets from the environment and the command line once, and wipes them there, because other processes could
// read them in /proc/PID/environ and /proc/PID/cmdline.
#ifndef CLI_PROCESS_SECRETS_H
#define CLI_PROCESS_SECRETS_H

// Takes the secret of this environment variable, of `variable`_FD or of the file `variable`_FILE (secure/secret.h). If
// the secret cannot be read, only cli_secrets_find() reports that, since not every command needs it. [main, before any
// thread]
void cli_secrets_take(const char *variable);

// Sets `*text` to the secret, which lives as long as the process, or to NULL if there is none. INVALID: it could not be
// read.
int cli_secrets_find(const char *variable, const char **text);

// Copies an argument and overwrites its characters; the copy lives as long as the process. NOMEM.
int cli_secrets_keep(char *argument, const char **text);

// Reads the secret in a file of this user (secure/secret.h); the text lives as long as the process.
int cli_secrets_read(const char *path, const char **text);

#endif
