// Ten thousand callers without the token connect while lawful agents meet. Some callers are silent, some are slow, and
// some send garbage. Every lawful agent succeeds, and the listener's memory does not grow with the number of strangers.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/exchange/support/meeting.h"
#include "base/time/clock.h"
#include "cmocka_all.h"

enum { STRANGERS = 10000, OPEN = 400, MEETINGS = CROWD_EVENTS / 4 }; // OPEN: at once on this side

struct flood {
  pthread_t thread;
  uint16_t port;
  _Atomic int done;
  int fds[OPEN];
};

// One of each three says nothing, one begins as it should and goes no further, one sends something else.
static void *call_all(void *arg) {
  struct flood *flood = arg;
  static const char *const words[] = {"", "\x16\x03\x01\x01", "\x16\x03\x01\0\5hello and more"};
  static const size_t sizes[] = {0, 4, 20};
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons(flood->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  for (int i = 0; i < STRANGERS; i++) {
    int *fd = &flood->fds[i % OPEN];
    struct linger reset = {.l_onoff = 1};
    if (*fd >= 0) {
      setsockopt(*fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset); // no TIME_WAIT, which would use up ports
      close(*fd);
    }
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd >= 0 && connect(*fd, (struct sockaddr *)&to, sizeof to) == 0)
      send(*fd, words[i % 3], sizes[i % 3], MSG_NOSIGNAL);
    atomic_fetch_add(&flood->done, 1);
  }
  for (int i = 0; i < OPEN; i++)
    if (flood->fds[i] >= 0)
      close(flood->fds[i]);
  return NULL;
}

static void test_flood(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  static struct flood flood;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  memset(flood.fds, -1, sizeof flood.fds);
  flood.port = meet_port(&listener);
  assert_int_equal(pthread_create(&flood.thread, NULL, call_all, &flood), 0);
  uint64_t longest = 0;
  int meetings = 0;
  do {
    char name[32];
    snprintf(name, sizeof name, "caller-%d", meetings++);
    meet_caller(&caller, name, meet_token);
    uint64_t begin = clock_ns();
    meet(&caller, &listener);
    uint64_t took = clock_ns() - begin;
    longest = took > longest ? took : longest;
    crowd_close(&caller);
  } while (atomic_load(&flood.done) < STRANGERS && meetings < MEETINGS);
  pthread_join(flood.thread, NULL);
  printf("  %d meetings among %d strangers, the longest in %d ms\n", meetings, STRANGERS, (int)(longest / 1000000));
  assert_int_equal(crowd_count(&listener, LOADED, NULL), meetings);
  crowd_close(&listener);
}

static int run(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_flood)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
  return meet_run(run);
}
