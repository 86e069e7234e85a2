// Makes and reads the keys of a run in the store.
#include "run/common/keys.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"

int run_keys_check_job(const char *job) {
  size_t size = strlen(job);
  if (size == 0 || size > RUN_JOB_MAX)
    return fail(WEFT_ERR_INVALID, "--job: the name '%s' must have 1 to %d characters", job, RUN_JOB_MAX);
  for (const char *c = job; *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
      return fail(WEFT_ERR_INVALID, "--job: the name '%s' may only have letters, digits, '.', '_' and '-'", job);
  return 0;
}

void run_keys_init(struct run_keys *keys, const char *job, const char *run) {
  snprintf(keys->live, sizeof keys->live, "/weft/%s/run", job);
  snprintf(keys->prefix, sizeof keys->prefix, "/weft/%s/%s/", job, run);
}

void run_key(char out[RUN_KEY_SIZE], const struct run_keys *keys, const char *format, ...) {
  char rest[RUN_KEY_SIZE];
  va_list args;
  va_start(args, format);
  vsnprintf(rest, sizeof rest, format, args);
  va_end(args);
  size_t size = strlen(keys->prefix);
  memcpy(out, keys->prefix, size);
  snprintf(out + size, RUN_KEY_SIZE - size, "%s", rest);
}

const char *run_key_tail(const struct run_keys *keys, const char *key, const char *kind) {
  size_t prefix = strlen(keys->prefix), size = strlen(kind);
  if (strncmp(key, keys->prefix, prefix) != 0 || strncmp(key + prefix, kind, size) != 0 || key[prefix + size] != '/')
    return NULL;
  return key + prefix + size + 1;
}

bool run_key_pair(const struct run_keys *keys, const char *key, const char *kind, uint32_t *first, uint32_t *second) {
  const char *tail = run_key_tail(keys, key, kind);
  unsigned a = 0, b = 0;
  char made[RUN_KEY_SIZE];
  if (!tail || sscanf(tail, "%9u/%9u", &a, &b) != 2)
    return false;
  snprintf(made, sizeof made, "%u/%u", a, b); // sscanf takes signs, blanks and zeros too
  if (strcmp(made, tail) != 0)
    return false;
  *first = a;
  *second = b;
  return true;
}

bool run_key_is(const struct run_keys *keys, const char *key, const char *name) {
  size_t prefix = strlen(keys->prefix);
  return strncmp(key, keys->prefix, prefix) == 0 && strcmp(key + prefix, name) == 0;
}
