// Makes and removes the folder.
#include "support/root.h"

#include "cmocka_all.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temporary.h"

char root[ROOT_PATH];

int root_make_named(const char *name) {
  support_temporary(root, sizeof root, name);
  return mkdtemp(root) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk) {
  (void)status;
  (void)kind;
  (void)walk;
  return remove(path);
}

int root_remove(void **state) {
  (void)state;
  return nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void root_put(const char *path, const char *text) {
  char full[512];
  snprintf(full, sizeof full, "%s%s", root, path);
  for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(full, 0755);
    *slash = '/';
  }
  FILE *file = fopen(full, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}
