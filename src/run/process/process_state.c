// Reads the state of a process from /proc.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "run/process/process_state.h"

bool process_state_parse(struct process_state *state, const char *text) {
  const char *name_end = strrchr(text, ')'); // the name may contain brackets and blanks; the rest does not
  unsigned long long user, system;
  char letter;
  if (!name_end ||
      sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &letter, &user, &system) != 3)
    return false;
  *state = (struct process_state){letter, user + system};
  return true;
}

bool process_state_read(struct process_state *state, pid_t pid) {
  char path[40], text[1024];
  snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  text[size > 0 ? size : 0] = '\0';
  return process_state_parse(state, text);
}

const char *process_state_standstill(char state) {
  switch (state) {
  case 'T':
    return "is stopped (state T: a signal stopped it; SIGCONT continues it)";
  case 't':
    return "is stopped by a debugger (state t)";
  case 'D':
    return "is blocked in the kernel (state D: a disk, a network file system or a device does not answer)";
  case 'Z':
    return "has lost its main thread (state Z), while others of its threads have not ended";
  default:
    return NULL;
  }
}
