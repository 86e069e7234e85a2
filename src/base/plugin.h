// Finds and opens the shared modules of this library that need additional libraries, for GPUs and networks.
#ifndef BASE_PLUGIN_H
#define BASE_PLUGIN_H

struct plugin {
  const char *file;     // "libweft_cuda.so.0"
  const char *called;   // "CUDA plug-in"
  const char *package;  // the package to install: "libweft_cuda"
  const char *variable; // environment variable that names another file, by an absolute path
  const char *symbol;   // the symbol that it exports
};

// Checks the symbol of a module that was just opened. 0: keep the module; otherwise the error of fail() says what is
// wrong with it.
typedef int (*plugin_check_fn)(void *arg, void *symbol, const char *path);

// Opens the file that the variable names; otherwise the file beside this code, or in the installation's library folder.
// It does not search the working directory, and does not use the dynamic linker's search rules. The first existing file
// is used: if it is wrong, no other is tried. It has to belong to root, to this user or to the owner of this code's own
// file, and nobody else may be able to write it (nor its folder, if the variable names it). A program that runs with
// more rights than its caller (AT_SECURE) ignores the variable. UNSUPPORTED: the plug-in is not installed, cannot be
// loaded or is no such plug-in; the text says which. An opened plug-in stays loaded.
int plugin_open(const struct plugin *plugin, plugin_check_fn check, void *arg);

#endif
