// A cuFile of the tests, without GPUDirect Storage: it reads and writes files for the fake device, whose memory is the
// host's. Tests tell it what to do through this struct, which they find by fake_cufile(). FAKE_CUFILE_DRIVER and
// FAKE_CUFILE_AT_MOST set `driver_error` and `at_most` when it is loaded.
#ifndef SUPPORT_FAKE_CUFILE_H
#define SUPPORT_FAKE_CUFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fake_cufile {
  // What calls return: codes of cuFile, 0 for success
  _Atomic int driver_error, driver_cuda, handle_error, buffer_error;
  _Atomic int error;        // of reads and writes from byte `from` of the file on: a code of cuFile,
  _Atomic int errno_;       // or an errno
  _Atomic uint64_t from;    // of the file
  _Atomic int interrupts;   // calls that end with EINTR first
  _Atomic uint64_t at_most; // bytes of a call; 0: as many as there are
  _Atomic int hold;         // while it is not 0, reads and writes do not return
  // What there has been, and is
  _Atomic int drivers, handles, buffers; // opened; registered now
  _Atomic int calls, inside;             // reads and writes; those that have not returned
};

// Whether the library in that file is the fake: else it is cuFile itself, which takes no orders.
bool fake_cufile_is(const char *path);
// Of the library in that file; fails the test where it is none.
struct fake_cufile *fake_cufile_find(const char *path);

#define FAKE_CUFILE_SYMBOL "fake_cufile"
typedef struct fake_cufile *fake_cufile_fn(void);

#endif
