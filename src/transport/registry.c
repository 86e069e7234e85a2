#include "transport/transport.h"

#include <string.h>

#include "base/fail.h"
#include "transport_builtins.h"

#define DECLARE(name) extern const struct transport transport_##name;
TRANSPORT_BUILTINS(DECLARE)
#undef DECLARE

static const struct transport *const builtins[] = {
#define ENTRY(name) &transport_##name,
    TRANSPORT_BUILTINS(ENTRY)
#undef ENTRY
        NULL,
};

const char *const *transport_names(void) {
  static const char *const names[] = {"shm", "cuda", "ucx", "ofi", "file", "object", NULL};
  return names;
}

int transport_find(const char *name, const struct transport **transport) {
  for (const struct transport *const *one = builtins; *one; one++) {
    if (strcmp((*one)->name, name) == 0) {
      *transport = *one;
      return 0;
    }
  }
  for (const char *const *known = transport_names(); *known; known++) {
    if (strcmp(*known, name) == 0)
      return fail(WEFT_ERR_UNSUPPORTED, "the transport %s is not in this build", name);
  }
  return fail(WEFT_ERR_NOT_FOUND, "there is no transport %s: shm, cuda, ucx, ofi, file and object are", name);
}
