// TCP within the host: connections over 127.0.0.1, each with a thread that sends and one that receives.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "limits/measured/measured.h"

enum { CHUNK = 256 << 10, MOST = 64, TRIES = 2, LEAST_SLICE_MS = 50, SILENT_S = 5 };

struct line {
  int sends, receives;
  uint64_t until_ns;
  pthread_t sender, receiver;
  double gbps;
  int error; // errno of what broke it off
};

static void *send_until(void *arg) {
  struct line *line = arg;
  char *bytes = calloc(1, CHUNK);
  while (bytes && !clock_passed(line->until_ns))
    if (send(line->sends, bytes, CHUNK, MSG_NOSIGNAL) < 0 && errno != EINTR)
      break;
  shutdown(line->sends, SHUT_WR); // this also ends the receiver
  free(bytes);
  return NULL;
}

// If the sender is silent, the socket's time limit ends the thread.
static void *receive_all(void *arg) {
  struct line *line = arg;
  char *bytes = malloc(CHUNK);
  uint64_t begun = clock_ns(), sum = 0;
  ssize_t got = bytes ? 1 : -1;
  while (got > 0) {
    got = recv(line->receives, bytes, CHUNK, 0);
    if (got < 0 && errno == EINTR)
      got = 1;
    else
      sum += got > 0 ? (uint64_t)got : 0;
  }
  line->error = got < 0 ? (bytes ? errno : ENOMEM) : 0;
  line->gbps = (double)sum / (double)(clock_ns() - begun);
  free(bytes);
  return NULL;
}

static int connect_line(struct line *line) {
  const struct timeval limit = {.tv_sec = SILENT_S};
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  line->sends = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool failed = listener < 0 || line->sends < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 ||
                listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&address, &size) != 0 ||
                connect(line->sends, (struct sockaddr *)&address, size) != 0;
  if (!failed)
    line->receives = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  int error = errno;
  if (listener >= 0)
    close(listener);
  if (failed || line->receives < 0)
    return fail_errno(error, "cannot connect to 127.0.0.1 within this host");
  setsockopt(line->sends, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  setsockopt(line->receives, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return 0;
}

static int start_line(struct line *line) {
  int error = thread_create(&line->receiver, NULL, receive_all, line);
  if (error != 0)
    return fail_thread(error, "a thread that receives");
  error = thread_create(&line->sender, NULL, send_until, line);
  if (error == 0)
    return 0;
  shutdown(line->sends, SHUT_WR);
  pthread_join(line->receiver, NULL);
  return fail_thread(error, "a thread that sends");
}

static int run_lines(struct line *lines, uint32_t count, uint64_t slice_ns, double *sum) {
  uint32_t started = 0;
  int rc = 0, error = 0;
  uint64_t until_ns = clock_ns() + slice_ns;
  *sum = 0;
  for (; started < count && rc == 0; started += rc == 0) {
    lines[started].until_ns = until_ns;
    rc = start_line(&lines[started]);
  }
  for (uint32_t i = 0; i < started; i++) {
    pthread_join(lines[i].sender, NULL);
    pthread_join(lines[i].receiver, NULL);
    *sum += lines[i].gbps;
    error = lines[i].error != 0 ? lines[i].error : error;
  }
  return rc == 0 && error != 0 ? fail_errno(error, "a connection within this host broke") : rc;
}

static int try_lines(uint32_t count, uint64_t slice_ns, double *sum) {
  struct line lines[MOST];
  uint32_t opened = 0;
  int rc = 0;
  for (uint32_t i = 0; i < count; i++)
    lines[i] = (struct line){.sends = -1, .receives = -1};
  for (; opened < count && rc == 0; opened++)
    rc = connect_line(&lines[opened]);
  if (rc == 0)
    rc = run_lines(lines, count, slice_ns, sum);
  for (uint32_t i = 0; i < opened; i++) {
    if (lines[i].sends >= 0)
      close(lines[i].sends);
    if (lines[i].receives >= 0)
      close(lines[i].receives);
  }
  return rc;
}

int limits_measure_loopback(const struct limits_try *one) {
  struct limits_entry entry = {.kind = LIMITS_LOOPBACK, .name = "loopback tcp", .measured = true};
  uint64_t least_ns = LEAST_SLICE_MS * (uint64_t)1000000;
  uint64_t slice_ns = one->slice_ns > least_ns ? one->slice_ns : least_ns;
  uint32_t most = one->limits->hardware.processors, best = 1;
  int rc = 0;
  most = most > MOST ? MOST : most < 2 ? 2 : most;
  for (uint32_t count = 1; count <= most && rc == 0; count *= 2) {
    for (int i = 0; i < TRIES && rc == 0; i++) {
      double gbps = 0;
      rc = limits_check_stopped(one);
      if (rc == 0)
        rc = try_lines(count, slice_ns, &gbps);
      best = gbps > entry.gbps ? count : best;
      entry.gbps = gbps > entry.gbps ? gbps : entry.gbps;
    }
  }
  if (rc != 0)
    return rc;
  snprintf(entry.detail, sizeof entry.detail,
           "%u connection%s over 127.0.0.1, in pieces of %d KiB: the best of 1 to %u", best, best == 1 ? "" : "s",
           CHUNK >> 10, most);
  return limits_table_add(&one->limits->table, &entry);
}
