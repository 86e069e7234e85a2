// A TCP relay between a client and a server, with which a test disturbs what passes.
#include "support/relay.h"

#include "base/time/clock.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_PAIRS = 256, PIECE = 16384 };

struct piece {
  struct piece *next;
  uint64_t due_ns;
  size_t size;
  size_t written;
  char data[PIECE];
};

// One direction of a connection.
struct flow {
  int from;
  int to;
  struct piece *first;
  struct piece **end;
  bool ended; // `from` has sent everything
};

struct pair {
  struct flow request;
  struct flow answer;
};

struct support_relay {
  int listener;
  int wake;
  uint16_t port;
  uint16_t target;
  pthread_t thread;
  pthread_mutex_t lock; // guards the fields below; the thread holds it except while it polls
  struct pair *pairs[MAX_PAIRS];
  size_t count;
  bool stopping, refuse, hold, hold_answers;
  uint32_t delay_ms;
  uint64_t answered;
};

static void reset(int fd) {
  struct linger now = {.l_onoff = 1};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(fd);
}

static void drop_pieces(struct flow *flow) {
  while (flow->first) {
    struct piece *next = flow->first->next;
    free(flow->first);
    flow->first = next;
  }
}

static void drop_pair(struct support_relay *relay, size_t index) {
  struct pair *pair = relay->pairs[index];
  drop_pieces(&pair->request);
  drop_pieces(&pair->answer);
  reset(pair->request.from);
  reset(pair->answer.from);
  free(pair);
  relay->pairs[index] = relay->pairs[--relay->count];
}

static int connect_target(uint16_t port) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
    return fd;
  if (fd >= 0)
    close(fd);
  return -1;
}

static void take_connection(struct support_relay *relay) {
  int one = 1;
  int client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);
  if (client < 0)
    return;
  int server = relay->refuse || relay->count == MAX_PAIRS ? -1 : connect_target(relay->target);
  struct pair *pair = server < 0 ? NULL : calloc(1, sizeof *pair);
  if (!pair) {
    reset(client);
    if (server >= 0)
      reset(server);
    return;
  }
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  pair->request = (struct flow){.from = client, .to = server, .end = &pair->request.first};
  pair->answer = (struct flow){.from = server, .to = client, .end = &pair->answer.first};
  relay->pairs[relay->count++] = pair;
}

// Receives one piece. False: the connection broke.
static bool read_piece(struct support_relay *relay, struct flow *flow) {
  struct piece *piece = malloc(sizeof *piece);
  if (!piece)
    return false;
  ssize_t got = recv(flow->from, piece->data, PIECE, MSG_DONTWAIT);
  if (got <= 0) {
    free(piece);
    flow->ended = got == 0;
    return got == 0;
  }
  piece->next = NULL;
  piece->due_ns = clock_deadline_ms(relay->delay_ms);
  piece->size = (size_t)got;
  piece->written = 0;
  *flow->end = piece;
  flow->end = &piece->next;
  return true;
}

// Sends the pieces that are due. False: the connection is over.
static bool write_pieces(struct flow *flow, uint64_t *written) {
  while (flow->first && clock_passed(flow->first->due_ns)) {
    struct piece *piece = flow->first;
    ssize_t sent =
        send(flow->to, piece->data + piece->written, piece->size - piece->written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
      return true; // full: poll reports when there is room; broken: the next read reports it
    *written += (uint64_t)sent;
    piece->written += (size_t)sent;
    if (piece->written < piece->size)
      return true;
    flow->first = piece->next;
    if (!flow->first)
      flow->end = &flow->first;
    free(piece);
  }
  return flow->first || !flow->ended;
}

static bool is_held(const struct support_relay *relay, const struct flow *flow, const struct pair *pair) {
  return relay->hold || (relay->hold_answers && flow == &pair->answer);
}

static int poll_timeout(const struct flow *flow, int timeout_ms) {
  int left = flow->first ? clock_left_ms(flow->first->due_ns) : -1;
  return left < 0 || (timeout_ms >= 0 && timeout_ms < left) ? timeout_ms : left;
}

// What to poll on the descriptor from which `in` reads and to which `out` writes. -1: nothing.
static struct pollfd watch_end(const struct support_relay *relay, const struct pair *pair, const struct flow *in,
                               const struct flow *out) {
  bool reading = !is_held(relay, in, pair) && !in->ended;
  bool writing = !is_held(relay, out, pair) && out->first && clock_passed(out->first->due_ns);
  return (struct pollfd){.fd = reading || writing ? in->from : -1,
                         .events = (short)((reading ? POLLIN : 0) | (writing ? POLLOUT : 0))};
}

static bool serve_flow(struct support_relay *relay, struct pair *pair, struct flow *flow, short events) {
  uint64_t written = 0;
  if (is_held(relay, flow, pair))
    return true;
  if ((events & (POLLIN | POLLHUP | POLLERR)) && !flow->ended && !read_piece(relay, flow))
    return false;
  bool alive = write_pieces(flow, &written);
  if (flow == &pair->answer)
    relay->answered += written;
  return alive;
}

static void serve(struct support_relay *relay, struct pollfd *fds, size_t polled) {
  for (size_t i = polled; i-- > 0;) { // downwards, since dropping a pair moves the last one here
    struct pair *pair = relay->pairs[i];
    if (!serve_flow(relay, pair, &pair->request, fds[2 + 2 * i].revents) ||
        !serve_flow(relay, pair, &pair->answer, fds[3 + 2 * i].revents))
      drop_pair(relay, i);
  }
}

static void *run_relay(void *arg) {
  struct support_relay *relay = arg;
  struct pollfd *fds = calloc(2 + 2 * MAX_PAIRS, sizeof *fds);
  pthread_mutex_lock(&relay->lock);
  while (fds && !relay->stopping) {
    size_t polled = relay->count;
    int timeout_ms = -1;
    fds[0] = (struct pollfd){.fd = relay->listener, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = relay->wake, .events = POLLIN};
    for (size_t i = 0; i < polled; i++) {
      struct pair *pair = relay->pairs[i];
      fds[2 + 2 * i] = watch_end(relay, pair, &pair->request, &pair->answer);
      fds[3 + 2 * i] = watch_end(relay, pair, &pair->answer, &pair->request);
      if (!relay->hold && relay->delay_ms)
        timeout_ms = poll_timeout(&pair->answer, poll_timeout(&pair->request, timeout_ms));
    }
    pthread_mutex_unlock(&relay->lock);
    poll(fds, 2 + 2 * polled, timeout_ms);
    pthread_mutex_lock(&relay->lock);
    uint64_t count;
    if (read(relay->wake, &count, sizeof count) > 0)
      continue; // something was changed: check everything again
    serve(relay, fds, polled);
    if (fds[0].revents)
      take_connection(relay);
  }
  pthread_mutex_unlock(&relay->lock);
  free(fds);
  return NULL;
}

static bool listen_anywhere(struct support_relay *relay) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (relay->listener < 0 || bind(relay->listener, (struct sockaddr *)&address, size) != 0 ||
      listen(relay->listener, MAX_PAIRS) != 0 || getsockname(relay->listener, (struct sockaddr *)&address, &size) != 0)
    return false;
  relay->port = ntohs(address.sin_port);
  return true;
}

struct support_relay *support_relay_start(uint16_t target) {
  struct support_relay *relay = calloc(1, sizeof *relay);
  if (!relay)
    return NULL;
  relay->target = target;
  relay->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  pthread_mutex_init(&relay->lock, NULL);
  if (relay->wake >= 0 && listen_anywhere(relay) && pthread_create(&relay->thread, NULL, run_relay, relay) == 0)
    return relay;
  close(relay->listener);
  close(relay->wake);
  free(relay);
  return NULL;
}

// In this order, since the thread must not take the lock after a change before it is woken.
static void wake_and_unlock(struct support_relay *relay) {
  eventfd_write(relay->wake, 1);
  pthread_mutex_unlock(&relay->lock);
}

void support_relay_stop(struct support_relay *relay) {
  if (!relay)
    return;
  pthread_mutex_lock(&relay->lock);
  relay->stopping = true;
  wake_and_unlock(relay);
  pthread_join(relay->thread, NULL);
  while (relay->count)
    drop_pair(relay, relay->count - 1);
  close(relay->listener);
  close(relay->wake);
  pthread_mutex_destroy(&relay->lock);
  free(relay);
}

uint16_t support_relay_port(const struct support_relay *relay) {
  return relay->port;
}

size_t support_relay_cut(struct support_relay *relay) {
  pthread_mutex_lock(&relay->lock);
  size_t count = relay->count;
  while (relay->count)
    drop_pair(relay, relay->count - 1);
  wake_and_unlock(relay);
  return count;
}

void support_relay_refuse(struct support_relay *relay, bool refuse) {
  pthread_mutex_lock(&relay->lock);
  relay->refuse = refuse;
  wake_and_unlock(relay);
}

void support_relay_hold(struct support_relay *relay, bool hold) {
  pthread_mutex_lock(&relay->lock);
  relay->hold = hold;
  wake_and_unlock(relay);
}

void support_relay_hold_answers(struct support_relay *relay, bool hold) {
  pthread_mutex_lock(&relay->lock);
  relay->hold_answers = hold;
  wake_and_unlock(relay);
}

void support_relay_delay(struct support_relay *relay, uint32_t delay_ms) {
  pthread_mutex_lock(&relay->lock);
  relay->delay_ms = delay_ms;
  wake_and_unlock(relay);
}

uint64_t support_relay_answered(struct support_relay *relay) {
  pthread_mutex_lock(&relay->lock);
  uint64_t answered = relay->answered;
  pthread_mutex_unlock(&relay->lock);
  return answered;
}
