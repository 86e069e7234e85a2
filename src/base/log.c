// Log lines on standard error, at the level of WEFT_LOG.
#include "base/log.h"

#include "base/printable.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static atomic_int level_now = -1;

// -1: there is no such level.
static int find_level(const char *wanted) {
  for (int i = 0; i < 4; i++)
    if (strcmp(wanted, level_names[i]) == 0)
      return i;
  return -1;
}

static int level_from_environment(void) {
  const char *wanted = getenv("WEFT_LOG");
  int level = wanted ? find_level(wanted) : -1;
  return level < 0 ? LOG_LEVEL_WARN : level;
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
  line[size] = '\0';
  printable_text(line); // it may contain text of others
  line[size++] = '\n';
  // A log line that cannot be written has nowhere else to go.
  ssize_t written = write(STDERR_FILENO, line, size);
  (void)written;
}
