// Finding and opening the shared modules that belong to this library but need more than it does: GPUs, networks.
#ifndef BASE_PLUGIN_H
#define BASE_PLUGIN_H

struct plugin {
  const char *file;     // "libweft_cuda.so.0"
  const char *called;   // "CUDA plug-in"
  const char *package;  // what to install: "libweft_cuda"
  const char *variable; // of the environment: names another file, by a path from / on
  const char *symbol;   // that it exports
};

// What stands at the symbol of a module that was just opened: 0 to keep it, or what is wrong with it, by fail().
typedef int (*plugin_check_fn)(void *arg, void *symbol, const char *path);

// Opens the file that the variable names; else the one beside this code, or in the installation's folder of libraries.
// Nothing is looked for in the working directory or by the dynamic linker's own rules. A file that is there is the one
// that is meant: if it is wrong, nothing else is tried. It has to belong to root, to this user or to whom the file of
// this code belongs, and nobody else may be able to write it (nor its folder, when it is named). A program that runs
// with more rights than its caller (AT_SECURE) does not look at the variable. UNSUPPORTED: it is not installed, cannot
// be loaded or is no such plug-in, in words. What was opened is kept for ever.
int plugin_open(const struct plugin *plugin, plugin_check_fn check, void *arg);

#endif
