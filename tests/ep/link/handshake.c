// All kinds of callers at the listeners of a rank, and of answers in its place. Nobody without the token learns
// anything. No faulty handshake message makes a link; each is refused with the reason. Meanwhile the ranks' own calls
// succeed.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/random.h"
#include "base/time/clock.h"
#include "cmocka_all.h"
#include "ep/handshake/handshake.h"
#include "ep/handshake/steps.h"
#include "ep/support/raw_peer.h"
#include "ep/support/wiretap.h"
#include "secure/lobby.h"
#include "support/entries.h"

#define TOKEN "00112233445566778899aabbccddeeff"

enum {
  SILENT = 320,
  SILENT_MS = 20000,
  SEED = 20,
  LATER = 3000,
  MANY_FDS = 20,
  HUGE = 2 << 20,
  FILES = 1024,
  EARLY_MS = 300
};

static uint32_t connected(weft_ep_t *ep) {
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  assert_int_equal(weft_ep_get_stats(ep, &stats), 0);
  return stats.connected;
}

// Sends `size` bytes within TLS and, with `ends`, ends the stream. Expects a refusal with `code`; 0: expects no answer.
static struct ep_tcp_message expect(struct hosts *hosts, const void *bytes, size_t size, bool ends, int code) {
  struct ep_tcp_message answer = {0};
  int fd = raw_peer_call(hosts->called);
  struct tls *tls = raw_peer_prove(fd, true, hosts->called->links.tcp_key);
  assert_non_null(tls);
  raw_peer_tls_send(tls, fd, bytes, size);
  if (ends)
    shutdown(fd, SHUT_WR);
  size_t got = raw_peer_tls_receive(tls, fd, &answer, sizeof answer);
  tls_close(tls);
  close(fd);
  if (got != (code ? sizeof answer : 0))
    fail_msg("%zu bytes are answered with %zu", size, got);
  if (code && (answer.message.kind != EP_REFUSED || answer.message.error != code))
    fail_msg("%zu bytes are answered with kind %u and code %d (%s), not %d", size, answer.message.kind,
             answer.message.error, answer.message.why, code);
  assert_int_equal(connected(hosts->called), 0);
  return answer;
}

static void expect_hello(struct hosts *hosts, const struct ep_tcp_message *hello, int code, const char *text) {
  struct ep_tcp_message answer = expect(hosts, hello, sizeof *hello, false, code);
  if (!strstr(answer.message.why, text))
    fail_msg("it is refused with \"%s\", which does not contain \"%s\"", answer.message.why, text);
}

// --- without the token ---

// A caller that does not know the claim receives only an alert of TLS, of one record.
enum { ALERT = 7, ALERT_RECORD = 21 };

static void a_caller_with_another_key_learns_nothing(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  for (int i = -1; i < SECRET_KEY_SIZE; i++) { // none at all, and each byte of it wrong
    uint8_t key[SECRET_KEY_SIZE] = {0};
    if (i >= 0) {
      memcpy(key, hosts.called->links.tcp_key, sizeof key);
      key[i] ^= 1;
    }
    struct wiretap relay;
    wiretap_open(&relay, raw_peer_port(hosts.called));
    int fd = wiretap_call(&relay);
    assert_null(raw_peer_prove(fd, true, key));
    close(fd);
    wiretap_close(&relay);
    assert_true(relay.num_sent > 0);
    if (relay.num_answered > ALERT || relay.answered[0] != ALERT_RECORD)
      fail_msg("it is answered with %zu bytes", relay.num_answered);
    assert_int_equal(connected(hosts.called), 0);
  }
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

// Sends `size` bytes without TLS; expects an alert at most.
static void expect_nothing(struct hosts *hosts, const void *bytes, size_t size, bool ends) {
  struct ep_tcp_message answer = {0};
  int fd = raw_peer_call(hosts->called);
  raw_peer_send(fd, bytes, size);
  if (ends)
    shutdown(fd, SHUT_WR);
  size_t got = raw_peer_read(fd, &answer, sizeof answer);
  close(fd);
  if (got > ALERT || (got > 0 && *(const uint8_t *)&answer != ALERT_RECORD))
    fail_msg("%zu bytes are answered with %zu", size, got);
  assert_int_equal(connected(hosts->called), 0);
}

static void rubbish_is_not_answered(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  uint64_t seed = SEED;
  static char bytes[sizeof(struct ep_tcp_message)];
  static const char http[] = "GET / HTTP/1.1\r\nHost: weft\r\n\r\n";
  const struct ep_tcp_message right = raw_peer_hello(hosts.caller, hosts.called);
  expect_nothing(&hosts, http, sizeof http - 1, true);
  expect_nothing(&hosts, "", 0, true);
  expect_nothing(&hosts, &right, sizeof right, false); // a handshake message that is right, in clear
  for (int round = 0; round < 32; round++) {
    for (size_t i = 0; i < sizeof bytes; i++)
      bytes[i] = (char)random_next(&seed);
    expect_nothing(&hosts, bytes, sizeof bytes, true);
    expect_nothing(&hosts, bytes, random_next(&seed) % sizeof bytes, true);
    expect(&hosts, bytes, sizeof bytes, false, WEFT_ERR_PROTOCOL); // within TLS, from a caller with the key
  }
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

// --- with the token ---

// Every length up to the handshake message's end, and some of those in the address and the key.
static void a_handshake_message_cut_short_makes_no_link(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  const struct ep_tcp_message right = raw_peer_hello(hosts.caller, hosts.called);
  for (size_t size = 0; size < sizeof right; size += size < offsetof(struct ep_tcp_message, address) ? 1 : 97)
    expect(&hosts, &right, size, true, 0);
  expect(&hosts, &right, sizeof right - 1, true, 0);
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

// The size of its handshake message does not matter.
static void another_version_is_refused_with_the_reason(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  const size_t sizes[] = {sizeof(struct ep_tcp_message), sizeof(struct ep_tcp_message) + LATER,
                          offsetof(struct ep_tcp_message, link)};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char bytes[sizeof(struct ep_tcp_message) + LATER] = "";
    struct ep_tcp_message hello = raw_peer_hello(hosts.caller, hosts.called);
    hello.version = EP_LAYOUT_VERSION + 1;
    hello.size = (uint32_t)sizes[i];
    memcpy(bytes, &hello, sizeof hello);
    struct ep_tcp_message answer = expect(&hosts, bytes, sizes[i], false, WEFT_ERR_VERSION);
    assert_non_null(strstr(answer.message.why, "version"));
    assert_int_equal(answer.version, EP_LAYOUT_VERSION);
  }
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

#define EXPECT(code, text, ...)                                                                                        \
  do {                                                                                                                 \
    struct ep_tcp_message hello = right;                                                                               \
    __VA_ARGS__;                                                                                                       \
    expect_hello(&hosts, &hello, code, text);                                                                          \
  } while (0)

static void a_handshake_message_that_is_wrong_anywhere_is_refused_in_words(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  const struct ep_tcp_message right = raw_peer_hello(hosts.caller, hosts.called);
  EXPECT(WEFT_ERR_PROTOCOL, "bytes", hello.size = UINT32_MAX);
  EXPECT(WEFT_ERR_PROTOCOL, "bytes", hello.size = 0);
  EXPECT(WEFT_ERR_PROTOCOL, "address of 4294967295", hello.address_size = UINT32_MAX);
  EXPECT(WEFT_ERR_PROTOCOL, "a key of 1025", hello.key_size = sizeof hello.key + 1);
  EXPECT(WEFT_ERR_PROTOCOL, "a key of 1025 bytes for its rings", hello.rings_key_size = sizeof hello.rings_key + 1);
  EXPECT(WEFT_ERR_PROTOCOL, "name has no end", memset(hello.transport, 'x', sizeof hello.transport));
  EXPECT(WEFT_ERR_PROTOCOL, "has no end", memset(hello.message.why, 'x', sizeof hello.message.why));
  EXPECT(WEFT_ERR_PROTOCOL, "not a handshake message", hello.message.magic ^= 1);
  EXPECT(WEFT_ERR_VERSION, "layout version", hello.message.version ^= 1);
  EXPECT(WEFT_ERR_PROTOCOL, "rank -1", hello.message.rank = -1);
  EXPECT(WEFT_ERR_PROTOCOL, "rank 4", hello.message.rank = 4);
  EXPECT(WEFT_ERR_PROTOCOL, "rank 0", hello.message.rank = 0); // itself
  EXPECT(WEFT_ERR_PROTOCOL, "rank 2147483647", hello.message.rank = INT32_MAX);
  EXPECT(WEFT_ERR_PROTOCOL, "incarnation", hello.message.to ^= 1);
  EXPECT(WEFT_ERR_PROTOCOL, "incarnation", hello.message.kind = EP_WELCOME);
  EXPECT(WEFT_ERR_PROTOCOL, "incarnation", hello.message.kind = 77);
  EXPECT(WEFT_ERR_VERSION, "hidden 4294967295", hello.message.hidden = UINT32_MAX);
  EXPECT(WEFT_ERR_VERSION, "window size", hello.message.area_bytes = 1);
  EXPECT(WEFT_ERR_VERSION, "zero_copy_bytes 1", hello.message.zero_copy_bytes = 1);
  EXPECT(WEFT_ERR_VERSION, "operations_per_step 4", hello.message.operations_per_step = 4);
  EXPECT(WEFT_ERR_VERSION, "CUDA memory", hello.message.memory = WEFT_EP_MEMORY_CUDA);
  EXPECT(WEFT_ERR_UNSUPPORTED, "shm", strcpy(hello.transport, "ofi"));
  EXPECT(WEFT_ERR_PROTOCOL, "address", hello.address_size = 0);
  EXPECT(WEFT_ERR_PROTOCOL, "address", hello.address_size = 64);
  struct ep_net *net;
  assert_int_equal(ep_net_open(hosts.caller, "shm", &ep_remote_events, &net), 0);
  EXPECT(WEFT_ERR_PROTOCOL, "key", hello.address_size = (uint32_t)net->address_size, hello.key_size = 80;
         memcpy(hello.address, net->address, net->address_size));
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

// --- a caller that may read the store, and lies ---

// A caller from `host` claims to be a rank that is connected, and of which the store has no other life. It takes no
// link down.
static void expect_no_new_life(const char *host) {
  struct hosts hosts;
  hosts_open(&hosts);
  weft_ep_close(hosts.caller);
  hosts.caller = hosts_rank(&hosts, 1, host);
  struct ep_link *link = hosts_connect_and_hold(&hosts);
  weft_ep_t *liar = hosts_rank(&hosts, 2, strcmp(host, "one") == 0 ? host : "three");
  liar->rank = 1; // whose last life is connected
  int rc = ep_dial(liar, 0, hosts.called->incarnation, hosts.called->links.address, clock_deadline_ms(SILENT_MS));
  liar->rank = 2;
  assert_int_equal(rc, WEFT_ERR_PEER_LOST);
  assert_non_null(strstr(weft_last_error(), "refused"));
  assert_true(ep_link_up(link));
  assert_int_equal(connected(hosts.called), 1);
  raw_peer_hold(hosts.called, link, -1);
  weft_ep_close(hosts.caller); // the true new life
  hosts.caller = hosts_rank(&hosts, 1, host);
  hosts_connect(&hosts);
  weft_ep_close(liar);
  hosts_close(&hosts);
}

static void another_rank_cannot_claim_to_be_a_new_life(void **state) {
  (void)state;
  expect_no_new_life("two");
}

// For instance a rank that was stopped, and whose number another rank has by now.
static void another_rank_cannot_claim_to_be_a_new_life_on_the_same_host(void **state) {
  (void)state;
  expect_no_new_life("one");
}

static void *connect_caller(void *arg) {
  static const int32_t called = 0;
  struct hosts *hosts = arg;
  return weft_ep_connect(hosts->caller, &called, 1, RAW_PEER_DEADLINE_MS) == WEFT_ERR_CANCELED ? hosts : NULL;
}

static bool is_answering(weft_ep_t *ep, int32_t rank) {
  pthread_mutex_lock(&ep->links.lock);
  bool answering = ep->links.answering[rank] != 0;
  pthread_mutex_unlock(&ep->links.lock);
  return answering;
}

static void await_answering(weft_ep_t *ep, int32_t rank, bool answering) {
  uint64_t deadline = clock_deadline_ms(RAW_PEER_DEADLINE_MS);
  while (is_answering(ep, rank) != answering && !clock_passed(deadline))
    poll(NULL, 0, 1);
  assert_int_equal(is_answering(ep, rank), answering);
}

// It gives up while the called rank opens its transport. If it got a link, the ranks of a view with it would
// take it for dead.
static void a_caller_that_hung_up_before_the_answer_gets_no_link(void **state) {
  (void)state;
  struct hosts hosts;
  pthread_t thread;
  void *canceled;
  struct weft_ep_event event = {.size = sizeof event};
  const struct transport *transport;
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  bool ofi = transport_find("ofi", &transport) == 0; // which finds out later than shm that the memory has gone
  hosts_open_by(&hosts, WEFT_EP_MEMORY_HOST, ofi ? "ofi" : "shm", store);
  pthread_mutex_lock(&hosts.called->net_lock);
  assert_int_equal(pthread_create(&thread, NULL, connect_caller, &hosts), 0);
  await_answering(hosts.called, 1, true);
  weft_ep_interrupt(hosts.caller);
  pthread_join(thread, &canceled);
  assert_non_null(canceled);
  pthread_mutex_unlock(&hosts.called->net_lock);
  await_answering(hosts.called, 1, false);
  while (weft_ep_next_event(hosts.called, &event) == 1)
    assert_int_not_equal(event.kind, WEFT_EP_EVENT_CONNECTED);
  assert_int_equal(connected(hosts.called), 0);
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

static int make_memory(size_t size, int seals) {
  int fd = memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0 && ftruncate(fd, (off_t)size) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0);
  return fd;
}

// Calls on this host, with `count` descriptors in the place of the windows; expects to be refused in those words.
static void expect_near(struct hosts *hosts, const int *fds, size_t count, const char *text) {
  struct ep_handshake_message message = ep_handshake_message_make(hosts->caller, EP_HELLO, hosts->called->incarnation);
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(MANY_FDS * sizeof(int))];
  } control = {0};
  struct iovec data = {.iov_base = &message, .iov_len = sizeof message};
  struct msghdr packet = {.msg_iov = &data, .msg_iovlen = 1};
  if (count > 0) {
    packet.msg_control = control.bytes;
    packet.msg_controllen = CMSG_SPACE(count * sizeof *fds);
    *CMSG_FIRSTHDR(&packet) =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(count * sizeof *fds)};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&packet)), fds, count * sizeof *fds);
  }
  int before = support_descriptors(), fd = raw_peer_call_near(hosts->called);
  assert_int_equal(sendmsg(fd, &packet, MSG_NOSIGNAL), sizeof message);
  assert_int_equal(recv(fd, &message, sizeof message, 0), sizeof message);
  if (message.kind != EP_REFUSED || !strstr(message.why, text))
    fail_msg("%zu descriptors are answered with kind %u: \"%s\", and not with \"%s\"", count, message.kind, message.why,
             text);
  assert_int_equal(recv(fd, control.bytes, 1, 0), 0); // it has closed everything
  close(fd);
  assert_int_equal(support_descriptors(), before);
  assert_int_equal(connected(hosts->called), 0);
}

// Whether what does not fit into the receiver's room for descriptors is closed, as recvmsg(2) says; qemu-user leaves it
// open.
static bool cut_descriptors_are_closed(void) {
  enum { SENT = 4 };
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(SENT * sizeof(int))];
  } control = {0};
  int ends[2], first, before = support_descriptors();
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const int fds[SENT] = {ends[0], ends[0], ends[0], ends[0]};
  struct iovec data = {.iov_base = (char[1]){0}, .iov_len = 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(sizeof fds)};
  *CMSG_FIRSTHDR(&message) =
      (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds)};
  memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), fds, sizeof fds);
  assert_int_equal(sendmsg(ends[0], &message, MSG_NOSIGNAL), 1);
  message.msg_controllen = CMSG_LEN(sizeof first);
  assert_int_equal(recvmsg(ends[1], &message, MSG_CMSG_CLOEXEC), 1);
  for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part))
    for (size_t at = CMSG_LEN(0); at + sizeof first <= part->cmsg_len; at += sizeof first) {
      memcpy(&first, (char *)part + at, sizeof first);
      close(first);
    }
  close(ends[0]);
  close(ends[1]);
  if (support_descriptors() == before)
    return true;
  print_message("skipped: more descriptors than there is room for: this kernel leaves them open\n");
  return false;
}

static void a_handshake_message_brings_its_windows_and_nothing_else(void **state) {
  (void)state;
  enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };
  struct hosts hosts;
  hosts_open(&hosts);
  size_t size = hosts.called->layout.area;
  int bell = make_memory(EP_DOORBELL_SIZE, SEALS), area = make_memory(size, SEALS), file = fileno(tmpfile());
  int many[MANY_FDS] = {bell, area};
  for (int i = 2; i < MANY_FDS; i++)
    many[i] = area;
  assert_int_equal(ftruncate(file, (off_t)size), 0);
  expect_near(&hosts, many, 0, "has no file descriptors of its windows");
  expect_near(&hosts, many, 1, "has no file descriptors of its windows");
  expect_near(&hosts, many, 3, "more than the");
  if (cut_descriptors_are_closed()) {
    expect_near(&hosts, many, 4, "more than the");
    expect_near(&hosts, many, MANY_FDS, "more than the");
  }
  expect_near(&hosts, (int[]){area, bell}, 2, "bytes");
  expect_near(&hosts, (int[]){bell, file}, 2, "not sealed");
  expect_near(&hosts, (int[]){bell, make_memory(size, F_SEAL_GROW)}, 2, "not sealed");
  expect_near(&hosts, (int[]){bell, make_memory(size, F_SEAL_SHRINK)}, 2, "not sealed");
  expect_near(&hosts, (int[]){bell, make_memory(size, SEALS | F_SEAL_WRITE)}, 2, "cannot map");
  expect_near(&hosts, (int[]){bell, make_memory(size + 4096, SEALS)}, 2, "bytes");
  expect_near(&hosts, (int[]){bell, make_memory((size_t)1 << 40, SEALS)}, 2, "bytes");
  int huge = memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
  struct ep_window window;
  if (huge >= 0 && ftruncate(huge, HUGE) == 0 && fcntl(huge, F_ADD_SEALS, SEALS) == 0) // pages that may run out
    assert_int_equal(ep_window_map(&window, HUGE, huge), WEFT_ERR_PROTOCOL);
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

struct refusing {
  int listener;
  struct ep_handshake_message refusal;
};

static void *refuse_one(void *arg) {
  const struct refusing *refusing = arg;
  struct ep_handshake_message hello;
  int fd = accept4(refusing->listener, NULL, NULL, SOCK_CLOEXEC);
  bool sent = fd >= 0 && recv(fd, &hello, sizeof hello, 0) == sizeof hello &&
              send(fd, &refusing->refusal, sizeof refusing->refusal, MSG_NOSIGNAL) == sizeof refusing->refusal;
  close(fd);
  return sent ? arg : NULL;
}

// Calls, as a rank of the same host, a socket that answers with this refusal.
static int call_refusing(struct hosts *hosts, int error, const char *why) {
  struct refusing refusing = {.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  socklen_t size = sizeof address;
  pthread_t thread;
  void *sent;
  bool yield = false;
  assert_true(refusing.listener >= 0);
  assert_int_equal(bind(refusing.listener, (struct sockaddr *)&address, sizeof address.sun_family), 0); // any free name
  assert_int_equal(getsockname(refusing.listener, (struct sockaddr *)&address, &size), 0);
  assert_int_equal(listen(refusing.listener, 1), 0);
  refusing.refusal = ep_handshake_message_make(hosts->called, EP_REFUSED, hosts->caller->incarnation);
  refusing.refusal.error = error;
  snprintf(refusing.refusal.why, sizeof refusing.refusal.why, "%s", why);
  assert_int_equal(pthread_create(&thread, NULL, refuse_one, &refusing), 0);
  int rc = ep_call_local(hosts->caller, 0, hosts->called->incarnation, &address, size,
                         clock_deadline_ms(RAW_PEER_DEADLINE_MS), &yield);
  pthread_join(thread, &sent);
  assert_non_null(sent);
  close(refusing.listener);
  return rc;
}

static void a_refusal_on_the_same_host_is_shown_without_control_characters(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  assert_int_equal(call_refusing(&hosts, WEFT_ERR_BUSY, "no\x1b[2J\nroom"), WEFT_ERR_BUSY);
  assert_string_equal(weft_last_error(), "rank 0 refused: no?[2J?room");
  assert_int_equal(call_refusing(&hosts, -77, "no room"), WEFT_ERR_PROTOCOL); // -77 is no error
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

// --- many ---

// More silent callers than the rank ever serves at once, so that a caller behind them would wait for many of their
// deadlines; and more than its lobby has places for, an eighth of the descriptors.
static void expect_through_silence(const char *host_of_caller) {
  static int silent[SILENT];
  static const int32_t called = 0;
  struct hosts hosts;
  hosts_open(&hosts);
  bool near = strcmp(host_of_caller, "one") == 0;
  if (near) {
    weft_ep_close(hosts.caller);
    hosts.caller = hosts_rank(&hosts, 1, host_of_caller);
  }
  const struct ep_tcp_message right = raw_peer_hello(hosts.caller, hosts.called);
  int before = support_descriptors();
  for (int i = 0; i < SILENT; i++) {
    silent[i] = near ? raw_peer_call_near(hosts.called) : raw_peer_call(hosts.called);
    if (i % 2 && !near)
      raw_peer_send(silent[i], &right, 100); // and not the rest
  }
  if (weft_ep_connect(hosts.caller, &called, 1, SILENT_MS) != 0)
    fail_msg("rank 1 does not get through: %s", weft_last_error());
  uint32_t taken = support_descriptors() - before - SILENT;
  if (taken > SILENT / 2)
    fail_msg("of %d silent callers, %u are kept", SILENT, taken);
  for (int i = 0; i < SILENT; i++)
    close(silent[i]);
  hosts_close(&hosts);
}

static struct arrival {
  weft_ep_t *_Atomic called; // whose service thread waits
  _Atomic bool dialled, was_early;
} arrival;

void __real_ep_emit(weft_ep_t *ep, enum weft_ep_event_kind kind, int32_t rank, uint64_t incarnation, uint64_t epoch,
                    uint64_t op, const char *detail);
void __wrap_ep_emit(weft_ep_t *ep, enum weft_ep_event_kind kind, int32_t rank, uint64_t incarnation, uint64_t epoch,
                    uint64_t op, const char *detail);

// Waits, where the link has just been made, and looks whether the caller goes on.
void __wrap_ep_emit(weft_ep_t *ep, enum weft_ep_event_kind kind, int32_t rank, uint64_t incarnation, uint64_t epoch,
                    uint64_t op, const char *detail) {
  if (ep == arrival.called && kind == WEFT_EP_EVENT_CONNECTED) {
    poll(NULL, 0, EARLY_MS);
    arrival.was_early = arrival.dialled;
  }
  __real_ep_emit(ep, kind, rank, incarnation, epoch, op, detail);
}

// A joiner proposes the view with itself once it is welcome everywhere: ranks that run in that view count on the link.
static void a_caller_is_welcome_once_its_link_is_there(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  arrival.called = hosts.called;
  struct ep_link *link = hosts_connect(&hosts);
  arrival.dialled = true;
  assert_ptr_equal(link, ep_link_find(hosts.called, 1, hosts.caller->incarnation));
  hosts_close(&hosts); // the event is over
  arrival.called = NULL;
  assert_false(arrival.was_early);
}

static void silent_callers_keep_nobody_out(void **state) {
  (void)state;
  expect_through_silence("two");
}

static void silent_callers_on_the_same_host_keep_nobody_out(void **state) {
  (void)state;
  expect_through_silence("one");
}

// --- a process that answers in a rank's place ---

struct impostor {
  int listener;
  uint8_t answer[sizeof(struct ep_tcp_message) + LATER];
  size_t size;
  bool knows;            // the claim
  bool holds;            // the connection open, until it is closed
  weft_ep_t *interrupts; // the caller, once it waits for an answer; NULL: none
};

static void receive_hello(struct tls *tls, int fd, struct ep_tcp_message *hello) {
  for (size_t at = 0, got = 0; at < sizeof *hello; at += got) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int rc = tls_read(tls, (char *)hello + at, sizeof *hello - at, &got);
    if (rc < 0)
      return;
    got = rc == 0 ? got : 0;
    if (rc > 0)
      poll(&ready, 1, RAW_PEER_DEADLINE_MS);
  }
}

static void *answer_one(void *arg) {
  struct impostor *impostor = arg;
  struct ep_tcp_message hello;
  uint8_t key[SECRET_KEY_SIZE];
  char rest[64];
  int fd = accept(impostor->listener, NULL, NULL);
  if (fd < 0)
    return NULL;
  struct pollfd more = {.fd = fd, .events = POLLIN};
  if (impostor->interrupts && poll(&more, 1, RAW_PEER_DEADLINE_MS) == 1)
    weft_ep_interrupt(impostor->interrupts);
  struct tls *tls = NULL;
  if (impostor->knows && secret_derive(TOKEN, EP_HANDSHAKE_PROTOCOL, key) == 0 &&
      (tls = raw_peer_prove(fd, false, key))) {
    receive_hello(tls, fd, &hello);
    raw_peer_tls_send(tls, fd, impostor->answer, impostor->size);
  }
  while (impostor->holds && poll(&more, 1, RAW_PEER_DEADLINE_MS) == 1 && recv(fd, rest, sizeof rest, 0) > 0)
    ;
  tls_close(tls);
  close(fd);
  return NULL;
}

// Calls where the impostor answers; expects that code and text.
static void expect_of_answer(struct hosts *hosts, struct impostor *impostor, uint32_t timeout_ms, int code,
                             const char *text) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  pthread_t thread;
  char address[128];
  impostor->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(impostor->listener, (struct sockaddr *)&at, size), 0);
  assert_int_equal(listen(impostor->listener, 1), 0);
  assert_int_equal(getsockname(impostor->listener, (struct sockaddr *)&at, &size), 0);
  uint16_t port = ntohs(at.sin_port); // a second call would stay in the listener's queue
  snprintf(address, sizeof address, "elsewhere name " TOKEN " 127.0.0.1:%u,127.0.0.1:%u", port, port);
  if (!impostor->interrupts)
    *strchr(address, ',') = '\0';
  assert_int_equal(pthread_create(&thread, NULL, answer_one, impostor), 0);
  int rc = ep_dial(hosts->caller, 0, hosts->called->incarnation, address, clock_deadline_ms(timeout_ms));
  pthread_join(thread, NULL);
  close(impostor->listener);
  if (rc != code || !strstr(weft_last_error(), text))
    fail_msg("the call gives %d: %s; not %d with \"%s\"", rc, weft_last_error(), code, text);
  assert_int_equal(connected(hosts->caller), 0);
}

static struct impostor answering(const struct ep_tcp_message *answer, size_t size) {
  struct impostor impostor = {.size = size, .knows = true};
  memcpy(impostor.answer, answer, size < sizeof *answer ? size : sizeof *answer);
  return impostor;
}

#define EXPECT_OF(code, text, ...)                                                                                     \
  do {                                                                                                                 \
    struct ep_tcp_message answer = welcome;                                                                            \
    size_t size = sizeof answer;                                                                                       \
    __VA_ARGS__;                                                                                                       \
    struct impostor impostor = answering(&answer, size);                                                               \
    expect_of_answer(&hosts, &impostor, RAW_PEER_DEADLINE_MS, code, text);                                             \
  } while (0)

static void an_answer_that_is_wrong_makes_no_link(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  struct ep_tcp_message welcome = ep_tcp_message_make(hosts.called, EP_WELCOME, hosts.caller->incarnation);
  EXPECT_OF(WEFT_ERR_PEER_LOST, "closed the connection", size = 0);
  EXPECT_OF(WEFT_ERR_PEER_LOST, "closed the connection", size = 7);
  EXPECT_OF(WEFT_ERR_PEER_LOST, "closed the connection", size = sizeof answer - 1);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "not a handshake message", memset(&answer, 'x', sizeof answer));
  EXPECT_OF(WEFT_ERR_VERSION, "layout version", answer.version++);
  EXPECT_OF(WEFT_ERR_VERSION, "layout version", answer.version++, size = 200);
  EXPECT_OF(WEFT_ERR_VERSION, "layout version", answer.version++, size += LATER);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "a malformed answer", answer.message.incarnation++);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "a malformed answer", answer.message.rank = 2);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "a malformed answer", answer.message.kind = EP_HELLO);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "a malformed answer", answer.message.kind = EP_YIELD, answer.message.rank = 2);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "address of 5000", answer.address_size = 5000);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "name has no end", memset(answer.transport, 'x', sizeof answer.transport));
  EXPECT_OF(WEFT_ERR_PROTOCOL, "address", strcpy(answer.transport, "shm"));
  EXPECT_OF(WEFT_ERR_LIMIT, "refused: so it is", answer.message.kind = EP_REFUSED,
            answer.message.error = WEFT_ERR_LIMIT, strcpy(answer.message.why, "so it is"));
  EXPECT_OF(WEFT_ERR_PROTOCOL, "refused: ?[31mred?", answer.message.kind = EP_REFUSED, answer.message.error = 7,
            strcpy(answer.message.why, "\x1B[31mred\n"));
  EXPECT_OF(WEFT_ERR_PROTOCOL, "refused", answer.message.kind = EP_REFUSED, answer.message.error = INT32_MIN,
            memset(answer.message.why, 'x', sizeof answer.message.why));
  struct impostor mute = {.holds = true}, stranger = {0};
  expect_of_answer(&hosts, &mute, 200, WEFT_ERR_TIMEOUT, "did not answer the call");
  mute.knows = true;
  expect_of_answer(&hosts, &mute, 200, WEFT_ERR_TIMEOUT, "did not answer the call");
  expect_of_answer(&hosts, &stranger, RAW_PEER_DEADLINE_MS, WEFT_ERR_PEER_LOST, "");
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

static void an_interrupt_ends_a_call_that_has_other_addresses_left(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  struct impostor mute = {.holds = true, .interrupts = hosts.caller};
  expect_of_answer(&hosts, &mute, RAW_PEER_DEADLINE_MS, WEFT_ERR_CANCELED, "interrupt");
  hosts_close(&hosts);
}

// Whether a caller that sends only after more callers have come than there are places for handshakes still gets through
// the handshake. `*in_time`: it has sent before its time for this was over.
static bool sends_late(struct hosts *hosts, bool *in_time) {
  enum { STRANGERS = 100 };
  int fds[STRANGERS];
  uint64_t begin = clock_ns();
  int late = raw_peer_call(hosts->called);
  for (int i = 0; i < STRANGERS; i++)
    fds[i] = raw_peer_call(hosts->called);
  int next = raw_peer_call(hosts->called);
  struct tls *tls = raw_peer_prove(next, true, hosts->called->links.tcp_key); // behind all of them
  assert_non_null(tls);
  tls_close(tls);
  tls = raw_peer_prove(late, true, hosts->called->links.tcp_key);
  *in_time = clock_ns() - begin < LOBBY_TIME_MS * UINT64_C(1000000);
  bool proved = tls != NULL;
  tls_close(tls);
  close(late);
  close(next);
  for (int i = 0; i < STRANGERS; i++)
    close(fds[i]);
  return proved;
}

static void a_caller_that_sends_late_has_kept_its_place(void **state) {
  (void)state;
  struct hosts hosts;
  bool served = false, in_time = false;
  hosts_open(&hosts);
  for (int i = 0; i < 20 && !served && !in_time; i++) // a busy machine may take longer
    served = sends_late(&hosts, &in_time);
  assert_true(served);
  hosts_close(&hosts);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_caller_with_another_key_learns_nothing),
      cmocka_unit_test(rubbish_is_not_answered),
      cmocka_unit_test(a_handshake_message_cut_short_makes_no_link),
      cmocka_unit_test(another_version_is_refused_with_the_reason),
      cmocka_unit_test(a_handshake_message_that_is_wrong_anywhere_is_refused_in_words),
      cmocka_unit_test(another_rank_cannot_claim_to_be_a_new_life),
      cmocka_unit_test(another_rank_cannot_claim_to_be_a_new_life_on_the_same_host),
      cmocka_unit_test(a_caller_that_hung_up_before_the_answer_gets_no_link),
      cmocka_unit_test(a_handshake_message_brings_its_windows_and_nothing_else),
      cmocka_unit_test(a_refusal_on_the_same_host_is_shown_without_control_characters),
      cmocka_unit_test(a_caller_is_welcome_once_its_link_is_there),
      cmocka_unit_test(silent_callers_keep_nobody_out),
      cmocka_unit_test(a_caller_that_sends_late_has_kept_its_place),
      cmocka_unit_test(silent_callers_on_the_same_host_keep_nobody_out),
      cmocka_unit_test(an_answer_that_is_wrong_makes_no_link),
      cmocka_unit_test(an_interrupt_ends_a_call_that_has_other_addresses_left),
  };
  struct rlimit files; // those of a process that nobody has given more
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur > FILES) {
    files.rlim_cur = FILES;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  printf("seed %d\n", SEED);
  return cmocka_run_group_tests_name("ep_handshake", tests, NULL, NULL);
}
