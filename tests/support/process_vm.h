// For tests of memory that cannot be mapped: whether this kernel has process_vm_readv(), which qemu's user mode lacks.
#ifndef SUPPORT_PROCESS_VM_H
#define SUPPORT_PROCESS_VM_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

// False, with a message that `what` is skipped: the call is missing or not allowed.
static inline bool process_vm_works(const char *what) {
  char from = 1, to = 0;
  struct iovec here = {&to, 1}, there = {&from, 1};
  if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 && to == from)
    return true;
  printf("skipped: %s: this kernel does not let a process read memory by process_vm_readv\n", what);
  return false;
}

#endif
