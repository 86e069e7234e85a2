// Reads from /proc/PID/task/PID/stat when a process started and whether it still runs. /proc/PID/stat has the same
// data, but an emulator of user space, such as qemu-user, makes up this file with another start if a process reads its
// own.
#include "base/process.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/time/clock.h"

enum { FIELD_STATE = 3, FIELD_START = 22 }; // as proc(5) counts them
enum { PAUSE_MS = 1, KILL_MS = 1000 };

struct stat_line {
  char state;
  uint64_t start_ticks;
};

// False: the line is not as proc(5) has it.
static bool parse(const char *line, struct stat_line *out) {
  const char *at = strrchr(line, ')'); // behind the command, which may hold anything
  for (int field = FIELD_STATE - 1; at && field < FIELD_START; field++) {
    at = strchr(at + 1, ' ');
    if (at && field + 1 == FIELD_STATE)
      out->state = at[1];
  }
  return at && sscanf(at, " %" SCNu64, &out->start_ticks) == 1;
}

// Returns the bytes read, 0 where there are none; -1 with errno: it cannot be opened.
static int read_stat(int32_t pid, char *line, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%" PRId32 "/task/%" PRId32 "/stat", pid, pid);
  FILE *file = fopen(path, "re");
  if (!file)
    return -1;
  size_t got = fread(line, 1, size - 1, file);
  fclose(file);
  line[got] = '\0';
  return (int)got;
}

uint64_t process_start(int32_t pid) {
  char line[1024];
  struct stat_line found = {0};
  return read_stat(pid, line, sizeof line) > 0 && parse(line, &found) ? found.start_ticks : 0;
}

bool process_lives(int32_t pid, uint64_t start_ticks) {
  char line[1024];
  struct stat_line found = {0};
  int size = read_stat(pid, line, sizeof line);
  if (size < 0)
    return errno != ENOENT || kill(pid, 0) == 0 || errno != ESRCH;
  if (!parse(line, &found))
    return size > 0;
  return found.state != 'Z' && found.state != 'X' && (start_ticks == 0 || found.start_ticks == start_ticks);
}

bool process_reap(int32_t pid, int *status, uint64_t deadline_ns) {
  *status = 0;
  while (waitpid(pid, status, WNOHANG) == 0) {
    if (clock_passed(deadline_ns))
      return false;
    poll(NULL, 0, PAUSE_MS);
  }
  return true;
}

void process_end(int32_t pid) {
  int status;
  kill(pid, SIGKILL);
  process_reap(pid, &status, clock_deadline_ms(KILL_MS));
}
