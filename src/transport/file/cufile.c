// Loads cuFile, the library of GPUDirect Storage.
#include "transport/file/cufile.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

#define LIBRARY  "libcufile.so.0"
#define VARIABLE "WEFT_CUFILE"

// --- words ---

static const struct {
  int code;
  const char *name, *words;
} codes[] = {
    {5001, "DRIVER_NOT_INITIALIZED", "the kernel module nvidia-fs is not loaded"},
    {5002, "DRIVER_INVALID_PROPS", "a property is not valid"},
    {5003, "DRIVER_UNSUPPORTED_LIMIT", "a property is out of range"},
    {5004, "DRIVER_VERSION_MISMATCH", "the kernel module nvidia-fs is of another version"},
    {5005, "DRIVER_VERSION_READ_ERROR", "the version of the kernel module nvidia-fs cannot be read"},
    {5006, "DRIVER_CLOSING", "its driver is being closed"},
    {5007, "PLATFORM_NOT_SUPPORTED", "this platform is not supported"},
    {5008, "IO_NOT_SUPPORTED", "this file or its file system is not supported"},
    {5009, "DEVICE_NOT_SUPPORTED", "this GPU is not supported"},
    {5010, "NVFS_DRIVER_ERROR", "the kernel module nvidia-fs failed"},
    {CUFILE_CUDA_DRIVER_ERROR, "CUDA_DRIVER_ERROR", "the CUDA driver failed"},
    {5012, "CUDA_POINTER_INVALID", "the address is not in the memory of a GPU"},
    {5013, "CUDA_MEMORY_TYPE_INVALID", "memory of this type is not supported"},
    {5014, "CUDA_POINTER_RANGE_ERROR", "the bytes go beyond their allocation"},
    {5015, "CUDA_CONTEXT_MISMATCH", "the memory belongs to another CUDA context"},
    {5016, "INVALID_MAPPING_SIZE", "more is accessed than is pinned"},
    {5017, "INVALID_MAPPING_RANGE", "what is accessed is not what is pinned"},
    {5018, "INVALID_FILE_TYPE", "files of this type are not supported"},
    {5019, "INVALID_FILE_OPEN_FLAG", "the file was opened with a flag that is not supported"},
    {5020, "DIO_NOT_SET", "the file was not opened with O_DIRECT"},
    {5022, "INVALID_VALUE", "an argument is not valid"},
    {CUFILE_MEMORY_ALREADY_REGISTERED, "MEMORY_ALREADY_REGISTERED", "the memory is registered already"},
    {5024, "MEMORY_NOT_REGISTERED", "the memory is not registered"},
    {5025, "PERMISSION_DENIED", "the driver or the device may not be used"},
    {CUFILE_DRIVER_ALREADY_OPEN, "DRIVER_ALREADY_OPEN", "its driver is open already"},
    {CUFILE_HANDLE_NOT_REGISTERED, "HANDLE_NOT_REGISTERED", "the file is not registered"},
    {5028, "HANDLE_ALREADY_REGISTERED", "the file is registered already"},
    {5029, "DEVICE_NOT_FOUND", "the GPU is not found"},
    {5030, "INTERNAL_ERROR", "an internal error"},
    {CUFILE_GETNEWFD_FAILED, "GETNEWFD_FAILED", "the file cannot be opened once more"},
    {5033, "NVFS_SETUP_ERROR", "the kernel module nvidia-fs cannot be set up"},
    {5034, "IO_DISABLED", "its configuration forbids this file"},
    {5036, "GPU_MEMORY_PINNING_FAILED", "the GPU's memory cannot be pinned"},
    {5043, "NOMEM_ERROR", "out of memory"},
    {5044, "IO_ERROR", "the device failed"},
    {5045, "INTERNAL_BUF_REGISTER_ERROR", "its own buffers cannot be registered"},
    {5046, "HASH_OPR_ERROR", "an internal table failed"},
    {5047, "INVALID_CONTEXT_ERROR", "the CUDA context is not valid"},
    {5048, "NVFS_INTERNAL_DRIVER_ERROR", "an internal error of the kernel module nvidia-fs"},
};

const char *cufile_words(struct cufile_status status, char text[CUFILE_WORDS]) {
  size_t i = 0, count = sizeof codes / sizeof *codes;
  while (i < count && codes[i].code != status.err)
    i++;
  if (i == count)
    snprintf(text, CUFILE_WORDS, "error %d", status.err);
  else if (status.err == CUFILE_CUDA_DRIVER_ERROR && status.cuda != 0)
    snprintf(text, CUFILE_WORDS, "CU_FILE_%s (%d): %s, with its error %d", codes[i].name, status.err, codes[i].words,
             status.cuda);
  else
    snprintf(text, CUFILE_WORDS, "CU_FILE_%s (%d): %s", codes[i].name, status.err, codes[i].words);
  return text;
}

const char *cufile_file_words(struct cufile_status status, char text[CUFILE_WORDS]) {
  if (status.err != CUFILE_HANDLE_NOT_REGISTERED)
    return cufile_words(status, text);
  snprintf(text, CUFILE_WORDS,
           "CU_FILE_HANDLE_NOT_REGISTERED (%d): it does not learn from udev (/run/udev) of which "
           "kind the file's device is",
           status.err);
  return text;
}

const char *cufile_version(const struct cufile *cufile, char text[32]) {
  int version = 0;
  if (!cufile->get_version || cufile->get_version(&version).err != CUFILE_SUCCESS)
    snprintf(text, 32, "of unknown version");
  else
    snprintf(text, 32, "%d.%d", version / 1000, version % 1000 / 10);
  return text;
}

// --- library and driver ---

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// ISO C does not convert one to the other.
static bool take(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static int take_all(void *library, const char *path, struct cufile *found) {
  const struct {
    const char *name;
    void *function;
  } wanted[] = {{"cuFileDriverOpen", &found->driver_open},
                {"cuFileHandleRegister", &found->handle_register},
                {"cuFileBufRegister", &found->buffer_register},
                {"cuFileHandleDeregister", &found->handle_deregister},
                {"cuFileBufDeregister", &found->buffer_deregister},
                {"cuFileRead", &found->read},
                {"cuFileWrite", &found->write}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    if (!take(library, wanted[i].name, wanted[i].function))
      return fail(WEFT_ERR_UNSUPPORTED, "%s is not cuFile: it has no %s", path, wanted[i].name);
  }
  take(library, "cuFileGetVersion", &found->get_version);
  return 0;
}

static int load(const char *named, struct cufile *found) {
  bool is_named = named && named[0];
  if (is_named && *named != '/')
    return fail(WEFT_ERR_UNSUPPORTED, VARIABLE " names \"%s\": want a path that begins with /, or \"off\"", named);
  const char *path = is_named ? named : LIBRARY;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    return fail(WEFT_ERR_UNSUPPORTED, "there is no cuFile, the library of GPUDirect Storage%s: %s",
                is_named ? " (from " VARIABLE ")" : "", why ? why : "no reason");
  }
  int rc = take_all(library, path, found);
  if (rc != 0)
    dlclose(library);
  return rc;
}

int cufile_load(const struct cufile **cufile) {
  static struct cufile found; // never unloaded: it has threads
  static bool loaded;
  const char *named = secure_getenv(VARIABLE);
  if (named && strcmp(named, "off") == 0)
    return fail(WEFT_ERR_UNSUPPORTED, "GPUDirect Storage is switched off (" VARIABLE "=off)");
  pthread_mutex_lock(&lock);
  int rc = loaded ? 0 : load(named, &found);
  loaded |= rc == 0;
  pthread_mutex_unlock(&lock);
  if (rc == 0)
    *cufile = &found;
  return rc;
}

int cufile_driver(const struct cufile *cufile) {
  static bool open;
  char words[CUFILE_WORDS];
  int rc = 0;
  pthread_mutex_lock(&lock);
  if (!open) {
    struct cufile_status status = cufile->driver_open();
    open = status.err == CUFILE_SUCCESS || status.err == CUFILE_DRIVER_ALREADY_OPEN;
    if (!open)
      rc = fail(WEFT_ERR_UNSUPPORTED, "cuFile's driver does not open: %s", cufile_words(status, words));
  }
  pthread_mutex_unlock(&lock);
  return rc;
}
