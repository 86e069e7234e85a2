// A fake cuFile without GPUDirect Storage: it reads and writes files for the fake device, whose memory is host memory.
// Tests control it through this struct, which fake_cufile() returns. FAKE_CUFILE_DRIVER and FAKE_CUFILE_AT_MOST set
// `driver_error` and `at_most` when the library is loaded.
#ifndef SUPPORT_FAKE_CUFILE_H
#define SUPPORT_FAKE_CUFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fake_cufile {
  // Results of calls: codes of cuFile, 0 for success
  _Atomic int driver_error, driver_cuda, handle_error, buffer_error;
  _Atomic int error;        // of reads and writes from byte `from` of the file on: a code of cuFile,
  _Atomic int errno_;       // or an errno
  _Atomic uint64_t from;    // byte of the file
  _Atomic int interrupts;   // number of calls that first end with EINTR
  _Atomic uint64_t at_most; // most bytes of a call; 0: no limit
  _Atomic int hold;         // while it is not 0, reads and writes do not return
  // Counts
  _Atomic int drivers, handles, buffers; // opened drivers; registered handles and buffers
  _Atomic int calls, inside;             // reads and writes; those that have not returned
};

// Whether the library in that file is the fake. If not, it is the real cuFile, which tests cannot control.
bool fake_cufile_is(const char *path);
// The struct of the library in that file; fails the test if the library is not the fake.
struct fake_cufile *fake_cufile_find(const char *path);

#define FAKE_CUFILE_SYMBOL "fake_cufile"
typedef struct fake_cufile *fake_cufile_fn(void);

#endif
