// Holds callers that have connected until they have sent something.
#include "secure/lobby.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"

enum {
  MOMENT_MS = 25,         // nobody gives way before
  DESCRIPTORS_MS = 100,   // until descriptors may have come free
  WINDOW_MS = 50,         // LOBBY_RATE is counted in these
  TICK_MS = 10,           // between two checks for connections whose time has passed
  TURN = 32,              // events of one call
  MAX_LOOKS = 64,         // at one caller, until it has spoken
  WRONGS = LOBBY_BUCKETS, // index of the connections that began with something else
  FEW_WRONGS = 16,        // such connections that are closed at once, per window
  FEW = 1024,             // descriptors of a process for which nobody has raised the limit
  // TLS (RFC 8446, 5.1): the head of a record, and its allowed values.
  TLS_HEAD = 5,
  TLS_HANDSHAKE = 0x16,
  TLS_MAJOR = 3,
  TLS_MAX_RECORD = 1 << 14,
  HTTP_LEAST = 16,      // bytes: a shorter head is no request
  HTTP_MOST = 16 << 10, // more are no head
};

enum verdict { WAITS, SPOKEN, WRONG };

struct waiting {
  TAILQ_ENTRY(waiting) all, alike; // the oldest first
  uint64_t begun_ns;
  int fd;
  uint16_t bucket, looks;
  socklen_t size;
  struct sockaddr_in6 address; // or one of IPv4
};

TAILQ_HEAD(waitings, waiting);

struct lobby {
  int listener, epoll, timer;
  enum lobby_protocol protocol;
  uint32_t places, count;
  struct waitings all, alike[LOBBY_BUCKETS + 1];
  uint32_t counts[LOBBY_BUCKETS + 1];
  uint64_t armed_ns;  // when the timer fires; 0: never
  uint64_t rests_ns;  // until then nobody is accepted; 0: they are
  uint64_t window_ns; // start of the window in which accepted connections, and those that begin with something else,
                      // are counted
  uint32_t in_window, wrong_in_window;
  char head[]; // HTTP_MOST bytes for LOBBY_HTTP
};

uint16_t lobby_bucket(const struct sockaddr_storage *from) {
  const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;
  uint64_t address = 0;
  if (from->ss_family == AF_INET)
    address = ((const struct sockaddr_in *)from)->sin_addr.s_addr;
  else if (from->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
    memcpy(&address, six->sin6_addr.s6_addr + 12, 4);
  else if (from->ss_family == AF_INET6)
    memcpy(&address, six->sin6_addr.s6_addr, sizeof address);
  return (uint16_t)((address * UINT64_C(0x9E3779B97F4A7C15)) >> 56) % LOBBY_BUCKETS;
}

// --- how many ---

static uint32_t count_places(uint32_t most) {
  struct rlimit limit = {.rlim_cur = FEW};
  getrlimit(RLIMIT_NOFILE, &limit);
  rlim_t places = limit.rlim_cur / 8, more = limit.rlim_cur > FEW ? (limit.rlim_cur - FEW) / 3 * 2 : 0;
  if (places < more)
    places = more;
  return places > most ? most : places < 4 ? 4 : (uint32_t)places;
}

void lobby_raise_limit(uint32_t besides) {
  struct rlimit limit;
  rlim_t wanted = FEW + 2 * (rlim_t)(LOBBY_PLACES > besides ? LOBBY_PLACES : besides);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
    return;
  limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// --- first messages ---

// Makes the socket readable only when so many bytes are there: a slow sender does not wake the thread.
static void wake_at(int fd, int bytes) {
  setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

static enum verdict judge_tls(int fd) {
  uint8_t head[TLS_HEAD];
  int there = 0;
  ssize_t got = recv(fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0)
    return errno == EAGAIN || errno == EINTR ? WAITS : WRONG;
  if (got == 0 || head[0] != TLS_HANDSHAKE || (got > 1 && head[1] != TLS_MAJOR))
    return WRONG;
  if (got < TLS_HEAD)
    return WAITS;
  int record = head[3] << 8 | head[4];
  if (record == 0 || record > TLS_MAX_RECORD || ioctl(fd, FIONREAD, &there) != 0)
    return WRONG;
  if (there >= TLS_HEAD + record)
    return SPOKEN;
  wake_at(fd, TLS_HEAD + record);
  return WAITS;
}

static enum verdict judge_http(int fd, char *head) {
  ssize_t got = recv(fd, head, HTTP_MOST, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0)
    return errno == EAGAIN || errno == EINTR ? WAITS : WRONG;
  if (got == 0 || head[0] < 'A' || head[0] > 'Z') // a method (RFC 9110, 9.1)
    return WRONG;
  if (memmem(head, (size_t)got, "\r\n\r\n", 4))
    return SPOKEN;
  if (got == HTTP_MOST)
    return WRONG;
  wake_at(fd, (int)got + 1 > HTTP_LEAST ? (int)got + 1 : HTTP_LEAST);
  return WAITS;
}

static enum verdict judge(struct lobby *lobby, int fd) {
  return lobby->protocol == LOBBY_TLS ? judge_tls(fd) : judge_http(fd, lobby->head);
}

// --- the connections in the lobby ---

// By a reset, so that the system keeps nothing of it either.
static void hang_up(int fd) {
  struct linger reset = {.l_onoff = 1};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close(fd);
}

static void stand(struct lobby *lobby, struct waiting *one, uint16_t bucket) {
  one->bucket = bucket;
  TAILQ_INSERT_TAIL(&lobby->alike[bucket], one, alike);
  lobby->counts[bucket]++;
}

static void stand_no_more(struct lobby *lobby, struct waiting *one) {
  TAILQ_REMOVE(&lobby->alike[one->bucket], one, alike);
  lobby->counts[one->bucket]--;
}

static void take_out(struct lobby *lobby, struct waiting *one) {
  TAILQ_REMOVE(&lobby->all, one, all);
  stand_no_more(lobby, one);
  lobby->count--;
  free(one);
}

static void send_away(struct lobby *lobby, struct waiting *one) {
  epoll_ctl(lobby->epoll, EPOLL_CTL_DEL, one->fd, NULL); // a child may hold it open
  hang_up(one->fd);
  take_out(lobby, one);
}

// Has the timer fire at that time, or earlier.
static void arm(struct lobby *lobby, uint64_t at_ns) {
  if (lobby->armed_ns != 0 && lobby->armed_ns <= at_ns)
    return;
  struct timespec at = clock_timespec(at_ns);
  struct itimerspec once = {.it_value = at};
  if (timerfd_settime(lobby->timer, TFD_TIMER_ABSTIME, &once, NULL) == 0)
    lobby->armed_ns = at_ns;
}

static void listen_for(struct lobby *lobby, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = &lobby->listener};
  epoll_ctl(lobby->epoll, EPOLL_CTL_MOD, lobby->listener, &event);
}

// Stops accepting for a while.
static void rest(struct lobby *lobby, uint64_t until_ns) {
  lobby->rests_ns = until_ns;
  listen_for(lobby, 0);
  arm(lobby, until_ns);
}

static uint64_t later(uint64_t from_ns, uint32_t ms) {
  return from_ns + (uint64_t)ms * 1000000;
}

// False: no connection has to be closed at this moment.
static bool make_place(struct lobby *lobby, uint64_t now_ns, uint32_t moment_ms) {
  uint32_t most = 0;
  for (uint32_t i = 1; i < LOBBY_BUCKETS; i++)
    if (lobby->counts[i] > lobby->counts[most])
      most = i;
  if (lobby->counts[WRONGS] > 0)
    most = WRONGS;
  struct waiting *oldest = TAILQ_FIRST(&lobby->alike[most]);
  if (!oldest || (most != WRONGS && now_ns < later(oldest->begun_ns, moment_ms)))
    return false;
  send_away(lobby, oldest);
  return true;
}

// Closes the connections whose time has passed, and accepts again after a pause.
static void tick(struct lobby *lobby) {
  uint64_t fired, now = clock_ns();
  if (read(lobby->timer, &fired, sizeof fired) < 0)
    return;
  lobby->armed_ns = 0;
  if (lobby->rests_ns != 0 && lobby->rests_ns <= now) {
    lobby->rests_ns = 0;
    listen_for(lobby, EPOLLIN);
  }
  struct waiting *one;
  while ((one = TAILQ_FIRST(&lobby->all)) && later(one->begun_ns, LOBBY_TIME_MS) <= now)
    send_away(lobby, one);
  uint64_t soonest = later(now, TICK_MS), due = one ? later(one->begun_ns, LOBBY_TIME_MS) : UINT64_MAX;
  if (one)
    arm(lobby, due > soonest ? due : soonest);
  if (lobby->rests_ns != 0)
    arm(lobby, lobby->rests_ns);
}

// --- coming and going ---

static bool enter(struct lobby *lobby, const struct lobby_caller *caller, uint64_t now_ns) {
  struct waiting *one = malloc(sizeof *one);
  struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = one};
  if (!one || epoll_ctl(lobby->epoll, EPOLL_CTL_ADD, caller->fd, &event) != 0) {
    free(one);
    return false;
  }
  *one = (struct waiting){.begun_ns = now_ns, .fd = caller->fd};
  one->size = caller->size < sizeof one->address ? caller->size : sizeof one->address;
  memcpy(&one->address, &caller->address, one->size);
  TAILQ_INSERT_TAIL(&lobby->all, one, all);
  stand(lobby, one, lobby_bucket(&caller->address));
  lobby->count++;
  arm(lobby, later(now_ns, LOBBY_TIME_MS));
  return true;
}

// A connection that begins with something else is closed, so that its caller knows at once. But a flood of such callers
// would connect again as fast as they are closed. So beyond a few, they stay until their time is over or their place is
// needed, and nothing is read from them; the system keeps little of the data that they send.
static void refuse(struct lobby *lobby, struct waiting *one) {
  struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = one};
  char input[4096];
  int least = 1;
  if (lobby->wrong_in_window++ < FEW_WRONGS) {
    send_away(lobby, one);
    return;
  }
  epoll_ctl(lobby->epoll, EPOLL_CTL_MOD, one->fd, &event);
  setsockopt(one->fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
  for (int i = 0; i < MAX_LOOKS && recv(one->fd, input, sizeof input, MSG_DONTWAIT) > 0; i++)
    ;
  stand_no_more(lobby, one);
  stand(lobby, one, WRONGS);
}

// Whether one more may be accepted now; else there is a rest.
static bool has_room(struct lobby *lobby, uint64_t now_ns) {
  if (lobby->count >= lobby->places && !make_place(lobby, now_ns, MOMENT_MS)) {
    rest(lobby, later(now_ns, MOMENT_MS));
    return false;
  }
  if (now_ns >= later(lobby->window_ns, WINDOW_MS)) {
    lobby->window_ns = now_ns;
    lobby->in_window = lobby->wrong_in_window = 0;
  }
  if (lobby->in_window++ < LOBBY_RATE / (1000 / WINDOW_MS))
    return true;
  rest(lobby, later(lobby->window_ns, WINDOW_MS));
  return false;
}

// True: `*caller` has spoken already, as most have that mean well.
static bool accept_one(struct lobby *lobby, struct lobby_caller *caller) {
  uint64_t now = clock_ns();
  if (!has_room(lobby, now))
    return false;
  caller->size = sizeof caller->address;
  caller->fd =
      accept4(lobby->listener, (struct sockaddr *)&caller->address, &caller->size, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (caller->fd < 0) {
    bool out = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    if (out && !make_place(lobby, now, 0)) // no connection here can be closed for its descriptor
      rest(lobby, later(now, DESCRIPTORS_MS));
    return false;
  }
  if (judge(lobby, caller->fd) == SPOKEN)
    return true;
  if (!enter(lobby, caller, now)) // which looks again
    hang_up(caller->fd);
  return false;
}

// True: it has spoken, and is `*caller`.
static bool look(struct lobby *lobby, struct waiting *one, uint32_t events, struct lobby_caller *caller) {
  bool ended = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
  enum verdict verdict = one->bucket == WRONGS ? WRONG : judge(lobby, one->fd);
  if (verdict != SPOKEN && (ended || ++one->looks >= MAX_LOOKS))
    send_away(lobby, one);
  else if (verdict == WRONG)
    refuse(lobby, one);
  if (verdict != SPOKEN)
    return false;
  *caller = (struct lobby_caller){.fd = one->fd, .size = one->size};
  memcpy(&caller->address, &one->address, one->size);
  epoll_ctl(lobby->epoll, EPOLL_CTL_DEL, one->fd, NULL);
  take_out(lobby, one);
  return true;
}

bool lobby_next(struct lobby *lobby, struct lobby_caller *caller) {
  struct epoll_event event; // one at a time: the next may mean a socket that this one ends
  for (int i = 0; i < TURN && epoll_wait(lobby->epoll, &event, 1, 0) == 1; i++) {
    bool spoken = false;
    if (event.data.ptr == &lobby->listener)
      spoken = accept_one(lobby, caller);
    else if (event.data.ptr == &lobby->timer)
      tick(lobby);
    else
      spoken = look(lobby, event.data.ptr, event.events, caller);
    if (spoken) {
      wake_at(caller->fd, 1);
      return true;
    }
  }
  return false;
}

static int watch(struct lobby *lobby, int *fd) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = fd};
  return *fd < 0 ? -1 : epoll_ctl(lobby->epoll, EPOLL_CTL_ADD, *fd, &event);
}

int lobby_open(struct lobby **out, int listener, enum lobby_protocol protocol, uint32_t places) {
  struct lobby *lobby = calloc(1, sizeof *lobby + (protocol == LOBBY_HTTP ? HTTP_MOST : 0));
  if (!lobby)
    return fail(WEFT_ERR_NOMEM, "no memory for a listener's connections");
  lobby->listener = listener;
  lobby->protocol = protocol;
  lobby->places = count_places(places);
  TAILQ_INIT(&lobby->all);
  for (int i = 0; i <= WRONGS; i++)
    TAILQ_INIT(&lobby->alike[i]);
  lobby->epoll = epoll_create1(EPOLL_CLOEXEC);
  lobby->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  wake_at(listener, protocol == LOBBY_TLS ? TLS_HEAD : HTTP_LEAST);
  if (lobby->epoll < 0 || watch(lobby, &lobby->timer) != 0 || watch(lobby, &lobby->listener) != 0) {
    int error = errno;
    lobby_close(lobby);
    return fail_errno(error, "no file descriptors for a listener's connections");
  }
  *out = lobby;
  return 0;
}

int lobby_fd(const struct lobby *lobby) {
  return lobby->epoll;
}

void lobby_close(struct lobby *lobby) {
  if (!lobby)
    return;
  while (!TAILQ_EMPTY(&lobby->all))
    send_away(lobby, TAILQ_FIRST(&lobby->all));
  if (lobby->epoll >= 0)
    close(lobby->epoll);
  if (lobby->timer >= 0)
    close(lobby->timer);
  free(lobby);
}
