// The embedded server's listener, as a whole conversation: an input is the data of one connection, in pieces that are
// separated by a line with only a dot. The server reads each piece before the next one comes. It runs in this process,
// without TLS so that HTTP is reached; a first line "tls" asks for a server with TLS and a token, which reads garbage.
//
// Whatever the input, the server goes on, a good request is answered beside it, and without the token nothing is
// changed.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/store.h>

#include "fuzz/support/fuzz.h"

enum { MAX_PIECES = 16, FUZZ_WAIT_MS = 5000 };

struct listener {
  weft_store_server_t *server;
  weft_store_t *client; // with the token
  uint16_t port;
  bool tls;
};

static void open_listener(struct listener *listener, bool tls) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  struct weft_store_options client = WEFT_STORE_OPTIONS_INIT;
  listener->tls = tls;
  options.flags = !tls ? WEFT_STORE_SERVER_INSECURE : 0;
  FUZZ_CHECK(weft_store_server_start(&listener->server, &options) == 0);
  client.endpoints = weft_store_server_url(listener->server);
  client.token = weft_store_server_token(listener->server);
  FUZZ_CHECK(weft_store_open(&listener->client, &client) == 0);
  listener->port = (uint16_t)strtoul(strrchr(client.endpoints, ':') + 1, NULL, 10);
  if (tls)
    FUZZ_CHECK(weft_store_put(listener->client, "kept", "1", 1, 0, NULL) == 0);
}

// The two live as long as the process, which stops neither: the second is made where it is wanted.
static struct listener *listener_of(bool tls) {
  static struct listener listeners[2];
  if (!listeners[tls].server)
    open_listener(&listeners[tls], tls);
  return &listeners[tls];
}

// Waits for the end of a connect() that a signal has interrupted.
static bool connected(int fd) {
  struct pollfd ready = {.fd = fd, .events = POLLOUT};
  int error = 0;
  socklen_t size = sizeof error;
  while (poll(&ready, 1, FUZZ_WAIT_MS) < 0 && errno == EINTR)
    continue;
  if (!(ready.revents & POLLOUT))
    return false;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

// Each from another address of this host: where the server ends the connection, its port is in use for a minute.
static int call(uint16_t port) {
  static uint16_t calls;
  struct sockaddr_in source = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 0x10000u + calls++)};
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  FUZZ_CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&source, sizeof source) == 0);
  // The fuzzer's own alarm interrupts calls that wait; a connection goes on by itself then.
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 && (errno != EINTR || !connected(fd))) {
    fprintf(stderr, "connection from address %u: %s\n", calls, strerror(errno));
    abort();
  }
  const struct linger at_once = {.l_onoff = 1}; // the ports are used up otherwise
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  return fd;
}

// Reads what has arrived; waits `wait_ms` at most for the first bytes. False: the server ended the connection.
static bool drain(int fd, int wait_ms) {
  char bytes[4096];
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  while (poll(&ready, 1, wait_ms) == 1) {
    if (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0)
      return false;
    wait_ms = 0;
  }
  return true;
}

// Sends the input; a line with a dot separates its pieces.
static void send_pieces(int fd, const struct fuzz_input *input) {
  const char *place = input->data, *end = input->data + input->size;
  for (int pieces = 0; place < end && pieces < MAX_PIECES; pieces++) {
    const char *next = memmem(place, (size_t)(end - place), "\n.\n", 3);
    size_t size = (size_t)((next ? next : end) - place);
    if (send(fd, place, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 || !drain(fd, next ? 1 : 0))
      return;
    place = next ? next + 3 : end;
  }
}

// The server answers others while the connection stands, and has kept what strangers may not change.
static void check_service(const struct listener *listener) {
  struct weft_store_list *list;
  FUZZ_CHECK(weft_store_range(listener->client, "kept", false, 0, &list) == 0);
  if (listener->tls)
    FUZZ_CHECK(list->count == 1 && list->kvs[0]->version == 1 && list->revision == 2);
  weft_store_list_free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {(const char *)data, size};
  bool tls = size >= 4 && memcmp(data, "tls\n", 4) == 0;
  if (tls)
    input = (struct fuzz_input){input.data + 4, size - 4};
  struct listener *listener = listener_of(tls);
  int fd = call(listener->port);
  send_pieces(fd, &input);
  check_service(listener);
  close(fd);
  return 0;
}
