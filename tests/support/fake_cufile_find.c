// Finds the fake cuFile of this process and the struct by which a test controls it.
#include <dlfcn.h>
#include <string.h>

#include "cmocka_all.h"

#include "support/fake_cufile.h"

static void *look_up(const char *path) {
  void *library = dlopen(path, RTLD_NOW);
  return library ? dlsym(library, FAKE_CUFILE_SYMBOL) : NULL;
}

bool fake_cufile_is(const char *path) {
  return look_up(path) != NULL;
}

struct fake_cufile *fake_cufile_find(const char *path) {
  void *symbol = look_up(path);
  if (!symbol)
    fail_msg("no fake of cuFile: %s", dlerror());
  fake_cufile_fn *function;
  memcpy(&function, &symbol, sizeof function);
  return function();
}
