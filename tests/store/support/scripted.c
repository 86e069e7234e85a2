// A server that gives prepared answers.
#include "store/support/scripted.h"

#include "base/time/clock.h"
#include "cmocka_all.h"
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PARTS = 10 };

// Reads one request and keeps it. Returns its number.
static size_t take_request(struct scripted *server, int fd) {
  char request[SCRIPTED_REQUEST];
  size_t size = 0;
  ssize_t got;
  while (size < sizeof request - 1 && (got = recv(fd, request + size, sizeof request - 1 - size, 0)) > 0) {
    size += (size_t)got;
    request[size] = '\0';
    if (strstr(request, "\r\n\r\n") && request[size - 1] == '}')
      break;
  }
  request[size] = '\0';
  pthread_mutex_lock(&server->lock);
  size_t number = server->num_requests++;
  if (number < SCRIPTED_KEPT)
    memcpy(server->requests[number], request, size + 1);
  pthread_mutex_unlock(&server->lock);
  return number;
}

static void send_slowly(struct scripted *server, int fd, const struct scripted_answer *answer, size_t size) {
  size_t part = size / PARTS + 1;
  uint64_t before_ns = clock_ns();
  for (size_t sent = 0; sent < size; sent += part) {
    poll(NULL, 0, (int)answer->pause_ms);
    send(fd, answer->text + sent, size - sent < part ? size - sent : part, MSG_NOSIGNAL);
    uint64_t now_ns = clock_ns();
    server->longest_ns = now_ns - before_ns > server->longest_ns ? now_ns - before_ns : server->longest_ns;
    before_ns = now_ns;
  }
}

// Takes one connection after the other, until the listener is shut down.
static void *serve(void *arg) {
  struct scripted *server = arg;
  for (int fd; (fd = accept(server->listener, NULL, NULL)) >= 0;) {
    size_t number = take_request(server, fd), last = server->num_answers - 1;
    const struct scripted_answer *answer = &server->answers[number < last ? number : last];
    size_t size = answer->size ? answer->size : strlen(answer->text);
    if (answer->pause_ms)
      send_slowly(server, fd, answer, size);
    else
      send(fd, answer->text, size, MSG_NOSIGNAL);
    if (answer->stays && server->num_open < SCRIPTED_KEPT)
      server->open[server->num_open++] = fd;
    else
      close(fd);
  }
  return NULL;
}

void scripted_start(struct scripted *server, const struct scripted_answer *answers, size_t num_answers) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  *server = (struct scripted){.answers = answers, .num_answers = num_answers};
  pthread_mutex_init(&server->lock, NULL);
  server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(server->listener, (struct sockaddr *)&address, length), 0);
  assert_int_equal(listen(server->listener, 8), 0);
  assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &length), 0);
  snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u", ntohs(address.sin_port));
  assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

void scripted_stop(struct scripted *server) {
  shutdown(server->listener, SHUT_RDWR);
  pthread_join(server->thread, NULL);
  close(server->listener);
  for (size_t i = 0; i < server->num_open; i++)
    close(server->open[i]);
  pthread_mutex_destroy(&server->lock);
}

bool scripted_was_asked(struct scripted *server, size_t number, const char *text) {
  pthread_mutex_lock(&server->lock);
  bool asked = number < server->num_requests && number < SCRIPTED_KEPT && strstr(server->requests[number], text);
  pthread_mutex_unlock(&server->lock);
  return asked;
}
