// Waits until a condition holds or a deadline has passed.
#include "support/wait.h"

#include "base/time/clock.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const struct timespec interval = {.tv_nsec = 2000000};

bool support_wait(bool (*condition)(void *arg), void *arg, uint32_t timeout_ms) {
  uint64_t deadline_ns = clock_deadline_ms(timeout_ms);
  while (!condition(arg)) {
    if (clock_passed(deadline_ns))
      return false;
    nanosleep(&interval, NULL); // the time between two checks, not a wait for the condition
  }
  return true;
}

static struct sockaddr_in loopback(uint16_t port) {
  return (struct sockaddr_in){
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

// Whether no test in Python has the port: each of these marks its ports by sockets in the abstract namespace
// (ports.py). A socket kept open here would be one more descriptor, which tests count.
static bool is_nobodys(uint16_t port) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "weft-test-port-%u", port);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool nobodys = fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0;
  if (fd >= 0)
    close(fd);
  return nobodys;
}

static bool is_free(uint16_t port) {
  struct sockaddr_in address = loopback(port);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool free = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (fd >= 0)
    close(fd);
  return free;
}

// Looks below the ports of outgoing connections, since such a connection may take any of those at any time.
uint16_t support_free_port(void) {
  enum { FIRST = 10000, AT_LEAST = 1000, ATTEMPTS = 1000 };
  unsigned first_outgoing = 0, random;
  FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
  if (!file || fscanf(file, "%u", &first_outgoing) != 1 || first_outgoing < FIRST + AT_LEAST)
    first_outgoing = FIRST + AT_LEAST;
  if (file)
    fclose(file);
  for (int i = 0; i < ATTEMPTS; i++) {
    if (getrandom(&random, sizeof random, 0) != sizeof random)
      break;
    uint16_t port = (uint16_t)(FIRST + random % (first_outgoing - FIRST));
    if (is_free(port) && is_nobodys(port))
      return port;
  }
  return 0;
}

bool support_port_open(uint16_t port) {
  struct sockaddr_in address = loopback(port);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool open = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (fd >= 0)
    close(fd);
  return open;
}
