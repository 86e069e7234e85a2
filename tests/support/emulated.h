// Whether an emulator of user space, such as qemu-user, runs this program: then the kernel has another program for the
// process's first thread than /proc/self shows, because the emulator answers for /proc/self.
#ifndef SUPPORT_EMULATED_H
#define SUPPORT_EMULATED_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static inline bool support_emulated(void) {
  char path[64], told[512] = "", known[512] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/exe", (int)getpid());
  return readlink("/proc/self/exe", told, sizeof told - 1) > 0 && readlink(path, known, sizeof known - 1) > 0 &&
         strcmp(told, known) != 0;
}

#endif
