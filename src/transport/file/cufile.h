// cuFile, the library of GPUDirect Storage. It is loaded at run time, so the build needs no header of it. The types and
// functions that are used are declared here, from its reference (docs.nvidia.com, cuFile API); they are the same in all
// versions 1.
#ifndef TRANSPORT_FILE_CUFILE_H
#define TRANSPORT_FILE_CUFILE_H

#include <stddef.h>
#include <sys/types.h>

enum { CUFILE_SUCCESS = 0, CUFILE_CUDA_DRIVER_ERROR = 5011, CUFILE_MEMORY_ALREADY_REGISTERED = 5023 };
enum { CUFILE_HANDLE_NOT_REGISTERED = 5027, CUFILE_GETNEWFD_FAILED = 5031 };
enum { CUFILE_DRIVER_ALREADY_OPEN = 5026, CUFILE_OPAQUE_FD = 1 };

struct cufile_status { // CUfileError_t
  int err;             // one of CUfileOpError
  int cuda;            // CUresult, if `err` is CUDA_DRIVER_ERROR
};

struct cufile_target { // CUfileDescr_t
  int type;            // CUFILE_OPAQUE_FD
  union {
    int fd;
    void *handle;
  } of;
  const void *operations; // NULL
};

typedef void *cufile_handle; // CUfileHandle_t

// All functions may be called by any thread. read and write return bytes, -1 (see errno) or a negated CUfileOpError.
struct cufile {
  struct cufile_status (*driver_open)(void);
  struct cufile_status (*handle_register)(cufile_handle *handle, struct cufile_target *target);
  void (*handle_deregister)(cufile_handle handle);
  struct cufile_status (*buffer_register)(const void *memory, size_t size, int flags);
  struct cufile_status (*buffer_deregister)(const void *memory);
  ssize_t (*read)(cufile_handle handle, void *memory, size_t size, off_t file_offset, off_t memory_offset);
  ssize_t (*write)(cufile_handle handle, const void *memory, size_t size, off_t file_offset, off_t memory_offset);
  struct cufile_status (*get_version)(int *version); // NULL before 1.8
};

// Loads the library: libcufile.so.0, or the file that WEFT_CUFILE names. UNSUPPORTED: the file is missing or is no
// cuFile, or WEFT_CUFILE is "off". The library stays loaded. Any thread.
int cufile_load(const struct cufile **cufile);
// Opens its driver once for the process. The driver stays open, since other code in the process may use it.
// UNSUPPORTED, with cuFile's text. The driver examines GPUs and file systems, which takes up to seconds. Any thread.
int cufile_driver(const struct cufile *cufile);

enum { CUFILE_WORDS = 160 };
// "CU_FILE_IO_NOT_SUPPORTED (5008): this file or its file system is not supported". Returns `text`.
const char *cufile_words(struct cufile_status status, char text[CUFILE_WORDS]);
// The same for the registration of a file, for which some codes have another meaning.
const char *cufile_file_words(struct cufile_status status, char text[CUFILE_WORDS]);
// "1.15"; "of unknown version" where cuFile reports none. Returns `text`.
const char *cufile_version(const struct cufile *cufile, char text[32]);

#endif
