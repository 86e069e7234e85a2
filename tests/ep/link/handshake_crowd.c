// A permanent crowd of strangers at the listener for other hosts: some are silent, some send a little and stop, some
// send garbage, some do a handshake with a key that is not the rank's, and some know the claim and are silent
// afterwards. Ranks that start meanwhile connect to the rank and to each other, and the cost of the crowd stays
// bounded.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "ep/handshake/handshake.h"
#include "ep/handshake/steps.h"
#include "ep/support/raw_peer.h"
#include "secure/lobby.h"
#include "support/entries.h"

enum { SILENT = 1000, PROVED = 100, PLACES = LOBBY_FEW + 64 + 64 + 32, RANKS = 4, MORE_KB = 64 << 10, CALLS = 1000 };

enum trade { SEND_NOTHING, SEND_LITTLE, SEND_RUBBISH, HAVE_ANOTHER_KEY, KNOW_THE_CLAIM, TRADES };

// In shared memory.
struct board {
  _Atomic uint32_t port; // 0: not yet
  uint8_t key[SECRET_KEY_SIZE];
  _Atomic uint64_t calls[TRADES];
};

static struct board *board;

static int call(void) {
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)board->port)};
  struct linger reset = {.l_onoff = 1}; // leaves no port in TIME_WAIT
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    _exit(1);
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
    return fd;
  close(fd);
  return -1;
}

static void hold(int count, const void *bytes, size_t size, enum trade trade) {
  int *held = calloc((size_t)count, sizeof *held);
  for (uint64_t i = 0;; i++) {
    int *place = &held[i % (uint64_t)count];
    if (*place > 0)
      close(*place);
    *place = call();
    if (*place > 0 && size > 0)
      send(*place, bytes, size, MSG_NOSIGNAL);
    board->calls[trade]++;
  }
}

static void send_rubbish(void) {
  char bytes[5000];
  memset(bytes, 'x', sizeof bytes);
  for (;; board->calls[SEND_RUBBISH]++) {
    int fd = call();
    send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
    recv(fd, bytes, 1, 0);
    close(fd);
  }
}

static void have_another_key(void) {
  const uint8_t key[SECRET_KEY_SIZE] = {1};
  for (;; board->calls[HAVE_ANOTHER_KEY]++) {
    int fd = call();
    struct tls *tls = fd >= 0 ? raw_peer_prove(fd, true, key) : NULL;
    tls_close(tls);
    close(fd);
  }
}

static void know_the_claim(void) {
  int held[PROVED] = {0};
  struct tls *tls[PROVED] = {0};
  for (uint64_t i = 0;; i++, board->calls[KNOW_THE_CLAIM]++) {
    uint64_t at = i % PROVED;
    tls_close(tls[at]);
    if (held[at] > 0)
      close(held[at]);
    held[at] = call();
    tls[at] = held[at] >= 0 ? raw_peer_prove(held[at], true, board->key) : NULL;
  }
}

static void practise(enum trade trade) {
  static const uint8_t begin[] = {0x16, 3, 1, 0, 0xF0, 1, 0, 0, 0xEC, 3, 3}; // of a TLS handshake
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (board->port == 0)
    poll(NULL, 0, 1);
  if (trade == SEND_NOTHING)
    hold(SILENT, NULL, 0, trade);
  else if (trade == SEND_LITTLE)
    hold(SILENT, begin, sizeof begin, trade);
  else if (trade == SEND_RUBBISH)
    send_rubbish();
  else if (trade == HAVE_ANOTHER_KEY)
    have_another_key();
  else
    know_the_claim();
}

static long memory_kb(void) {
  long pages = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%ld %ld", &pages, &resident), 2);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void await_crowd(uint64_t calls) {
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS), so_far = 0;
  while (so_far < calls) {
    so_far = 0;
    for (int i = 0; i < TRADES; i++)
      so_far += board->calls[i];
    if (clock_passed(deadline_ns))
      fail_msg("the crowd has called %llu times", (unsigned long long)so_far);
    poll(NULL, 0, 1);
  }
}

static uint64_t all_calls(void) {
  uint64_t calls = 0;
  for (int i = 0; i < TRADES; i++)
    calls += board->calls[i];
  return calls;
}

static void ranks_come_through_a_crowd(void **state) {
  (void)state;
  static const int32_t called = 0;
  pid_t crowd[TRADES];
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(board, MAP_FAILED);
  for (int i = 0; i < TRADES; i++)
    if ((crowd[i] = fork()) == 0) {
      practise((enum trade)i);
      _exit(1);
    }
  struct hosts hosts;
  weft_ep_t *more[RANKS];
  hosts_open(&hosts);
  int descriptors = support_descriptors();
  long before_kb = memory_kb();
  memcpy(board->key, hosts.called->links.tcp_key, sizeof board->key);
  board->port = raw_peer_port(hosts.called);
  await_crowd(CALLS);
  if (weft_ep_connect(hosts.caller, &called, 1, RAW_PEER_DEADLINE_MS) != 0)
    fail_msg("rank 1 does not get through: %s", weft_last_error());
  for (int32_t rank = 2; rank < RANKS; rank++) {
    more[rank] = hosts_rank(&hosts, rank, "two");
    if (weft_ep_connect(more[rank], &called, 1, RAW_PEER_DEADLINE_MS) != 0)
      fail_msg("rank %d does not get through: %s", rank, weft_last_error());
  }
  int places = support_descriptors() - descriptors;
  long more_kb = memory_kb() - before_kb;
  await_crowd(all_calls() + 1); // which is still there
  printf("%llu calls of strangers; %d descriptors and %ld KB more\n", (unsigned long long)all_calls(), places, more_kb);
  for (int i = 0; i < TRADES; i++) {
    assert_true(board->calls[i] > 0);
    kill(crowd[i], SIGKILL);
    waitpid(crowd[i], NULL, 0);
  }
  assert_true(places < PLACES + 100); // and those of two ranks more
  assert_true(more_kb < MORE_KB);
  for (int32_t rank = 2; rank < RANKS; rank++)
    weft_ep_close(more[rank]);
  hosts_close(&hosts);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_come_through_a_crowd)};
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  return cmocka_run_group_tests_name("ep_handshake_crowd", tests, NULL, NULL);
}
