#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static atomic_int level_now = -1;

static int level_from_environment(void) {
  const char *wanted = getenv("WEFT_LOG");
  for (int i = 0; wanted && i < 4; i++)
    if (strcmp(wanted, level_names[i]) == 0)
      return i;
  return LOG_LEVEL_WARN;
}

void log_set_level(enum log_level level) {
  atomic_store(&level_now, (int)level);
}

void log_line(enum log_level level, const char *format, ...) {
  int now = atomic_load_explicit(&level_now, memory_order_relaxed);
  if (now < 0)
    atomic_store(&level_now, now = level_from_environment());
  if ((int)level > now)
    return;
  char line[2048];
  int used = snprintf(line, sizeof line, "weft[%s] ", level_names[level]);
  va_list args;
  va_start(args, format);
  int more = vsnprintf(line + used, sizeof line - (size_t)used, format, args);
  va_end(args);
  if (more < 0)
    return;
  size_t size = (size_t)used + (size_t)more;
  if (size > sizeof line - 1)
    size = sizeof line - 1;
  line[size++] = '\n';
  // A log line that cannot be written has nowhere else to go.
  ssize_t written = write(STDERR_FILENO, line, size);
  (void)written;
}
