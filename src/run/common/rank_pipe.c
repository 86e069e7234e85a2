// Writes a rank's messages to its node, one JSON object per line.
#include "run/common/rank_pipe.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void run_message_send(int fd, json_t *json) {
  char line[RUN_MESSAGE_MAX];
  size_t size = json ? json_dumpb(json, line, sizeof line - 1, JSON_COMPACT) : 0;
  json_decref(json);
  if (size == 0 || size > sizeof line - 1)
    return;
  line[size] = '\n';
  while (write(fd, line, size + 1) < 0 && errno == EINTR)
    ;
}

void run_message_offer(int fd, json_t *json) {
  struct pollfd room = {.fd = fd, .events = POLLOUT};
  if (poll(&room, 1, 0) > 0)
    run_message_send(fd, json);
  else
    json_decref(json);
}

void run_message_line(int fd, const char *format, ...) {
  char text[RUN_MESSAGE_MAX / 2];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (printf("%s\n", text) < 0 || fflush(stdout)) { // the node can still report it
    run_message_send(fd, json_pack("{s:s, s:i}", "kind", "log_lost", "error", errno));
    clearerr(stdout);
  }
  run_message_send(fd, json_pack("{s:s, s:s}", "kind", "line", "text", text));
}
