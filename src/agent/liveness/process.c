// Whether a process of this pid namespace still runs, by its start time.
#include "agent/liveness/process.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { FIELD_STATE = 3, FIELD_START = 22 }; // of /proc/PID/stat, as proc(5) counts them

bool process_lives(int32_t pid, uint64_t start_ticks) {
  char path[64], line[1024], state = '?';
  snprintf(path, sizeof path, "/proc/%" PRId32 "/stat", pid);
  FILE *file = fopen(path, "re");
  if (!file)
    return errno != ENOENT || kill(pid, 0) == 0 || errno != ESRCH;
  size_t size = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  line[size] = '\0';
  uint64_t ticks = 0;
  const char *at = strrchr(line, ')'); // behind the command, which may hold anything
  for (int field = FIELD_STATE - 1; at && field < FIELD_START; field++) {
    at = strchr(at + 1, ' ');
    if (at && field + 1 == FIELD_STATE)
      state = at[1];
  }
  if (!at || sscanf(at, " %" SCNu64, &ticks) != 1)
    return size > 0;
  return state != 'Z' && state != 'X' && (start_ticks == 0 || ticks == start_ticks);
}
