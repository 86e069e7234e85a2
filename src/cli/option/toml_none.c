// In the place of toml_read.cpp, in a build without tomlplusplus.
#include "base/fail.h"
#include "cli/option/toml.h"

int cli_toml_read(const char *path, const char *text, int (*member)(void *arg, const struct cli_toml_member *found),
                  void *arg) {
  (void)text, (void)member, (void)arg;
  return fail(WEFT_ERR_UNSUPPORTED,
              "cannot read %s: this build has no tomlplusplus (Debian: libtomlplusplus-dev); give its options on the "
              "command line",
              path);
}
