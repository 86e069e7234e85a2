// Replaces toml_read.cpp in a build without tomlplusplus.
#include "base/fail.h"
#include "toml/toml.h"

int toml_parse(struct toml_value **root, const char *path, const char *text) {
  (void)root, (void)text;
  return fail(WEFT_ERR_UNSUPPORTED,
              "cannot read %s: this build has no tomlplusplus (Debian: libtomlplusplus-dev); give options on the "
              "command line instead",
              path);
}

void toml_free(struct toml_value *root) {
  (void)root;
}
