// Attackers without access to a rank: another user of its host, who calls the rank or answers in a dead rank's place;
// and an attacker on the network between two hosts, who records their messages and replays them. Neither gets any
// access.
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "ep/handshake/handshake.h"
#include "ep/support/raw_peer.h"
#include "ep/support/wiretap.h"
#include "support/entries.h"

enum { NOBODY = 65534, CALLS = 10000, AT_ONCE = 200, MORE = 100, SKIPPED = 77 };

static uint32_t connected(weft_ep_t *ep) {
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  assert_int_equal(weft_ep_get_stats(ep, &stats), 0);
  return stats.connected;
}

// --- another user ---

static socklen_t name_of(struct sockaddr_un *at, const char *name) {
  *at = (struct sockaddr_un){.sun_family = AF_UNIX};
  strcpy(at->sun_path + 1, name); // abstract: a NUL first
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

static void become_nobody(void) {
  if (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)
    _exit(SKIPPED);
}

// In shared memory.
struct board {
  _Atomic uint32_t ready; // the other user's process listens, or has made its first calls
  _Atomic uint32_t done;
  _Atomic uint64_t got; // bytes of the answers that it received, descriptors counted as bytes
};

static struct board *new_board(void) {
  struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(board, MAP_FAILED);
  return board;
}

static void await(_Atomic uint32_t *word) {
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS);
  while (!atomic_load(word)) {
    if (clock_passed(deadline_ns))
      fail_msg("the other user's process does not go on");
    poll(NULL, 0, 1);
  }
}

// Receives and counts everything until the rank hangs up.
static void receive_all(struct board *board, int socket) {
  char bytes[4096], control[256];
  for (;;) {
    struct iovec data = {.iov_base = bytes, .iov_len = sizeof bytes};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t size = recvmsg(socket, &message, 0);
    if (size < 0 && errno == ECONNRESET) // reported before the data that came
      continue;
    if (size <= 0)
      return;
    board->got += (uint64_t)size + message.msg_controllen;
  }
}

// Calls again and again: every second call sends something, the others send nothing.
static void call_as_nobody(struct board *board, const char *name) {
  struct sockaddr_un at;
  socklen_t size = name_of(&at, name);
  int sockets[AT_ONCE];
  become_nobody();
  for (int call = 0; call < CALLS; call++) {
    int *socket_of = &sockets[call % AT_ONCE];
    if (call >= AT_ONCE) {
      receive_all(board, *socket_of);
      close(*socket_of);
    }
    *socket_of = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(*socket_of, (struct sockaddr *)&at, size) != 0)
      _exit(1);
    if (call % 2)
      send(*socket_of, "hello", 5, MSG_NOSIGNAL);
    if (call == AT_ONCE)
      board->ready = 1;
  }
  for (int i = 0; i < AT_ONCE; i++)
    receive_all(board, sockets[i]);
  _exit(0);
}

static bool end_child(pid_t child) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
    return false;
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return true;
}

static void another_user_gets_no_place_and_no_answer(void **state) {
  (void)state;
  static const int32_t called = 0;
  struct hosts hosts;
  char name[64];
  hosts_open(&hosts);
  weft_ep_close(hosts.caller);
  hosts.caller = hosts_rank(&hosts, 1, "one");
  assert_int_equal(sscanf(hosts.called->links.address, "%*s %63s", name), 1);
  struct board *board = new_board();
  int before = support_descriptors();
  pid_t child = fork();
  if (child == 0)
    call_as_nobody(board, name);
  await(&board->ready);
  if (weft_ep_connect(hosts.caller, &called, 1, RAW_PEER_DEADLINE_MS) != 0)
    fail_msg("rank 1 does not get through: %s", weft_last_error());
  assert_true(end_child(child));
  assert_int_equal(board->got, 0);
  int more = support_descriptors() - before;
  if (more > MORE)
    fail_msg("%d descriptors are left of the other user's calls", more);
  munmap(board, sizeof *board);
  hosts_close(&hosts);
}

static void listen_as_nobody(struct board *board, const char *name) {
  struct sockaddr_un at;
  socklen_t size = name_of(&at, name);
  become_nobody();
  int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (bind(listener, (struct sockaddr *)&at, size) != 0 || listen(listener, 8) != 0)
    _exit(1);
  board->ready = 1;
  struct pollfd call = {.fd = listener, .events = POLLIN};
  while (!board->done && poll(&call, 1, 10) == 0)
    ;
  int fd = call.revents ? accept(listener, NULL, NULL) : -1;
  if (fd >= 0)
    receive_all(board, fd);
  _exit(0);
}

static void a_process_with_the_socket_name_of_a_dead_rank_gets_no_windows(void **state) {
  (void)state;
  static const char name[] = "weft-00112233445566ff";
  struct hosts hosts;
  char host[EP_HOST_SIZE], address[EP_HOST_SIZE + 64];
  hosts_open(&hosts);
  assert_int_equal(sscanf(hosts.caller->links.address, "%159s", host), 1);
  snprintf(address, sizeof address, "%s %s", host, name);
  struct board *board = new_board();
  pid_t child = fork();
  if (child == 0)
    listen_as_nobody(board, name);
  await(&board->ready);
  int rc = ep_dial(hosts.caller, 0, 1234, address, clock_deadline_ms(1000));
  if (rc == WEFT_ERR_PEER_LOST && !strstr(weft_last_error(), "65534"))
    fail_msg("the call ends with \"%s\"", weft_last_error());
  board->done = 1;
  assert_true(end_child(child));
  assert_int_equal(board->got, 0);
  assert_int_equal(rc, WEFT_ERR_PEER_LOST);
  munmap(board, sizeof *board);
  hosts_close(&hosts);
}

// --- a relay between two hosts ---

// The called rank's address, with the relay's port.
static void through(const struct wiretap *relay, const weft_ep_t *called, char *address, size_t size) {
  int length = (int)(strrchr(called->links.address, ':') - called->links.address);
  snprintf(address, size, "%.*s:%u", length, called->links.address, relay->port);
}

static void parse_token(const weft_ep_t *ep, char digits[33], uint8_t token[16]) {
  assert_int_equal(sscanf(ep->links.address, "%*s %*s %32s", digits), 1);
  for (int i = 0; i < 16; i++)
    token[i] = (uint8_t)strtoul((char[]){digits[2 * i], digits[2 * i + 1], 0}, NULL, 16);
}

// Checks that no secret has passed in clear: neither what is needed to call a rank nor a message of the ranks.
static void expect_secrets(const struct wiretap *relay, const struct hosts *hosts) {
  char digits[33];
  uint8_t token[16];
  const struct ep_tcp_message hello = raw_peer_hello(hosts->caller, hosts->called);
  parse_token(hosts->called, digits, token);
  assert_true(relay->num_sent > 0 && relay->num_answered > 0);
  assert_false(wiretap_saw(relay, digits, 32));
  assert_false(wiretap_saw(relay, token, sizeof token));
  assert_false(wiretap_saw(relay, &hello.magic, sizeof hello.magic));
  assert_false(wiretap_saw(relay, &hello.message.magic, sizeof hello.message.magic));
  assert_false(wiretap_saw(relay, &hosts->caller->incarnation, sizeof hosts->caller->incarnation));
  assert_false(wiretap_saw(relay, &hosts->called->incarnation, sizeof hosts->called->incarnation));
}

static void meet_through(struct wiretap *relay, struct hosts *hosts) {
  char address[GROUP_ADDRESS_SIZE];
  wiretap_open(relay, raw_peer_port(hosts->called));
  through(relay, hosts->called, address, sizeof address);
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS);
  if (ep_dial(hosts->caller, 0, hosts->called->incarnation, address, deadline_ns) != 0)
    fail_msg("rank 1 does not reach rank 0 through the relay: %s", weft_last_error());
}

static void part(struct hosts *hosts) {
  static const int32_t called = 0;
  assert_int_equal(weft_ep_disconnect(hosts->caller, &called, 1, RAW_PEER_DEADLINE_MS), 0);
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS);
  while (connected(hosts->called) > 0 && !clock_passed(deadline_ns))
    poll(NULL, 0, 1);
  assert_int_equal(connected(hosts->called), 0);
}

static void a_relay_between_two_hosts_sees_no_secret(void **state) {
  (void)state;
  static struct wiretap relay;
  struct hosts hosts;
  hosts_open(&hosts);
  meet_through(&relay, &hosts);
  part(&hosts);
  wiretap_close(&relay);
  expect_secrets(&relay, &hosts);
  hosts_close(&hosts);
}

static void a_recorded_call_that_is_replayed_gets_no_link(void **state) {
  (void)state;
  static struct wiretap relay;
  static uint8_t answer[WIRETAP_ROOM];
  struct hosts hosts;
  hosts_open(&hosts);
  meet_through(&relay, &hosts);
  part(&hosts);
  wiretap_close(&relay);
  int fd = raw_peer_call(hosts.called);
  raw_peer_send(fd, relay.sent, relay.num_sent);
  shutdown(fd, SHUT_WR);
  relay.num_answered = raw_peer_read(fd, answer, sizeof answer);
  memcpy(relay.answered, answer, sizeof answer);
  memset(relay.sent, 0, sizeof relay.sent); // wiretap_saw() searches it, too
  close(fd);
  expect_secrets(&relay, &hosts); // not even a handshake message that refuses it
  assert_int_equal(connected(hosts.called), 0);
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

// As after the death of a rank, when its port has been given to another program. A joiner then waits for the view to
// change, as for any other rank that does not answer, and gets no error that calls its secret wrong.
static void a_process_with_the_port_of_a_dead_rank_is_not_that_rank(void **state) {
  (void)state;
  static struct wiretap relay;
  struct hosts hosts, others;
  char address[GROUP_ADDRESS_SIZE];
  hosts_open(&hosts);
  hosts_open(&others);
  wiretap_open(&relay, raw_peer_port(others.called));
  through(&relay, hosts.called, address, sizeof address);
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS);
  assert_int_equal(ep_dial(hosts.caller, 0, hosts.called->incarnation, address, deadline_ns), WEFT_ERR_UNREACHABLE);
  assert_non_null(strstr(weft_last_error(), "another process listens at the address of rank 0"));
  wiretap_close(&relay);
  assert_int_equal(connected(others.called), 0);
  hosts_close(&others);
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

int main(void) {
  const struct CMUnitTest of_users[] = {
      cmocka_unit_test(another_user_gets_no_place_and_no_answer),
      cmocka_unit_test(a_process_with_the_socket_name_of_a_dead_rank_gets_no_windows),
  };
  const struct CMUnitTest of_relay[] = {
      cmocka_unit_test(a_relay_between_two_hosts_sees_no_secret),
      cmocka_unit_test(a_recorded_call_that_is_replayed_gets_no_link),
      cmocka_unit_test(a_process_with_the_port_of_a_dead_rank_is_not_that_rank),
  };
  int failed = cmocka_run_group_tests_name("ep_untrusted_users of a relay", of_relay, NULL, NULL);
  if (failed == 0 && geteuid() != 0) {
    printf("skipped: another user's part takes root\n");
    return SKIPPED;
  }
  return failed != 0 ? failed : cmocka_run_group_tests_name("ep_untrusted_users of other users", of_users, NULL, NULL);
}
