#include "support/wait.h"

#include "base/clock.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct timespec interval = {.tv_nsec = 2000000};

bool support_wait(bool (*condition)(void *arg), void *arg, uint32_t timeout_ms) {
  uint64_t deadline_ns = clock_deadline_ms(timeout_ms);
  while (!condition(arg)) {
    if (clock_passed(deadline_ns))
      return false;
    nanosleep(&interval, NULL); // how often to ask, not how long to wait
  }
  return true;
}

static struct sockaddr_in loopback(uint16_t port) {
  return (struct sockaddr_in){
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

uint16_t support_free_port(void) {
  struct sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool good = fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
              getsockname(fd, (struct sockaddr *)&address, &size) == 0;
  if (fd >= 0)
    close(fd);
  return good ? ntohs(address.sin_port) : 0;
}

bool support_port_open(uint16_t port) {
  struct sockaddr_in address = loopback(port);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool open = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (fd >= 0)
    close(fd);
  return open;
}
