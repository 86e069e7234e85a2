// Checks and completes prefixes of keys.
#include "store/prefix.h"

#include <string.h>

#include "base/fail.h"

int store_prefix_complete(const weft_store_t *store, const char *whose, const char **prefix) {
  const char *given = *prefix;
  if (!given && store && strcmp(weft_store_name(store), "local") != 0)
    return fail(
        WEFT_ERR_INVALID,
        "no prefix is given, but other jobs use the store %s too: give %s a prefix that the members of this job "
        "share, such as \"/JOB/\"",
        weft_store_name(store), whose);
  if (!given)
    *prefix = "/weft/default/";
  else if (!*given || given[strlen(given) - 1] != '/')
    return fail(WEFT_ERR_INVALID, "prefix \"%s\" does not end in '/': want one such as \"/JOB/\"", given);
  return 0;
}
