// Preloaded into the tool: a process that asks to end with its parent stops, or ends, as TEST_TARGET says.
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int prctl(int option, ...) {
  const char *what = getenv("TEST_TARGET");
  unsigned long given[4];
  va_list list;
  va_start(list, option);
  for (int i = 0; i < 4; i++)
    given[i] = va_arg(list, unsigned long);
  va_end(list);
  if (option == PR_SET_PDEATHSIG && what && strcmp(what, "stops") == 0)
    raise(SIGSTOP);
  if (option == PR_SET_PDEATHSIG && what && strcmp(what, "ends") == 0)
    _exit(7);
  return (int)syscall(SYS_prctl, option, given[0], given[1], given[2], given[3]);
}
