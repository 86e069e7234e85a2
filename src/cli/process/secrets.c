// Tokens and passwords of options, kept as long as the process lives.
#include "cli/process/secrets.h"

#include "base/fail.h"
#include "secure/secret.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A secret that is kept; it has a variable if it came from the environment.
struct kept {
  const char *variable; // or NULL
  char *text;           // or NULL: none was given, or it could not be read
  int err;
  char *why;
  struct kept *next;
};

static struct kept *all;

static struct kept *find(const char *variable) {
  for (struct kept *kept = all; kept; kept = kept->next)
    if (kept->variable && strcmp(kept->variable, variable) == 0)
      return kept;
  return NULL;
}

// Takes ownership of `text`.
static int keep(const char *variable, char *text, int err) {
  struct kept *kept = calloc(1, sizeof *kept);
  if (!kept) {
    secret_free(text);
    return fail(WEFT_ERR_NOMEM, "no memory for a secret");
  }
  *kept = (struct kept){variable, text, err, err ? strdup(weft_last_error()) : NULL, all};
  all = kept;
  return 0;
}

void cli_secrets_take(const char *variable) {
  if (find(variable))
    return;
  // Removing the variable from the environment leaves its characters in the memory where the kernel put them, so they
  // are wiped.
  char *plain = getenv(variable), *text = NULL;
  int err = secret_from_environment(variable, &text);
  if (plain)
    explicit_bzero(plain, strlen(plain));
  keep(variable, text, err);
}

int cli_secrets_find(const char *variable, const char **text) {
  const struct kept *kept = find(variable);
  if (kept && kept->err)
    return fail(kept->err, "%s", kept->why ? kept->why : variable);
  *text = kept ? kept->text : NULL;
  return 0;
}

int cli_secrets_keep(char *argument, const char **text) {
  char *copy = strdup(argument);
  int err = copy ? keep(NULL, copy, 0) : fail(WEFT_ERR_NOMEM, "no memory for a secret");
  memset(argument, '*', strlen(argument));
  if (!err)
    *text = copy;
  return err;
}

int cli_secrets_read(const char *path, const char **text) {
  char *read = NULL;
  int err = secret_from_file(path, &read);
  if (!err)
    err = keep(NULL, read, 0);
  if (!err)
    *text = read;
  return err;
}
