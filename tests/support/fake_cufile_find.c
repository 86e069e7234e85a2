#include <dlfcn.h>
#include <string.h>

#include "cmocka_all.h"

#include "support/fake_cufile.h"

struct fake_cufile *fake_cufile_find(const char *path) {
  void *library = dlopen(path, RTLD_NOW);
  void *symbol = library ? dlsym(library, FAKE_CUFILE_SYMBOL) : NULL;
  if (!symbol)
    fail_msg("no fake of cuFile: %s", dlerror());
  fake_cufile_fn *function;
  memcpy(&function, &symbol, sizeof function);
  return function();
}
