// Runs all exchanges of a worker at once: curl's multi interface has its sockets in an epoll set, and the worker's user
// sleeps on the descriptor of this set. A timer in the set wakes the user for curl's next deadline or for another
// attempt.
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "transport/object/object.h"

enum { EVENTS = 32 };

// curl reports a change of the sockets that it watches.
static int on_socket(CURL *easy, curl_socket_t socket, int what, void *arg, void *known) {
  struct object_worker *worker = arg;
  struct epoll_event event = {.data.fd = socket};
  (void)easy;
  if (what == CURL_POLL_REMOVE) {
    if (known)
      epoll_ctl(worker->epoll_fd, EPOLL_CTL_DEL, socket, NULL);
    return 0;
  }
  event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
  if (epoll_ctl(worker->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event) < 0 && errno == EEXIST)
    epoll_ctl(worker->epoll_fd, EPOLL_CTL_MOD, socket, &event);
  curl_multi_assign(worker->multi, socket, worker);
  return 0;
}

// curl 7.88 may report that it does not watch a socket any more after it has closed it. Another thread may have opened
// a file with that number by then, so the set forgets the socket here.
static int close_socket(void *arg, curl_socket_t socket) {
  struct object_worker *worker = arg;
  epoll_ctl(worker->epoll_fd, EPOLL_CTL_DEL, socket, NULL);
  curl_multi_assign(worker->multi, socket, NULL);
  return close(socket);
}

static int on_timer(CURLM *multi, long ms, void *arg) {
  struct object_worker *worker = arg;
  (void)multi;
  worker->curl_ns = ms < 0 ? 0 : clock_ns() + (uint64_t)ms * 1000000u;
  return 0;
}

static bool add_timer(struct object_worker *worker) {
  struct epoll_event event = {.events = EPOLLIN, .data.fd = worker->timer_fd};
  return epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->timer_fd, &event) == 0;
}

int object_loop_open(struct object_worker *worker) {
  worker->multi = curl_multi_init();
  worker->lanes = calloc(worker->set.parallel, sizeof *worker->lanes);
  bool good = worker->multi && worker->lanes;
  for (uint64_t i = 0; good && i < worker->set.parallel; i++) {
    worker->lanes[i].worker = worker;
    good = (worker->lanes[i].easy = curl_easy_init()) != NULL;
  }
  if (!good)
    return fail(WEFT_ERR_NOMEM, "out of memory for the transport object");
  worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  worker->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (worker->epoll_fd < 0 || worker->timer_fd < 0 || !add_timer(worker))
    return fail_errno(errno, "cannot make a descriptor to sleep on");
  curl_multi_setopt(worker->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
  curl_multi_setopt(worker->multi, CURLMOPT_SOCKETDATA, worker);
  curl_multi_setopt(worker->multi, CURLMOPT_TIMERFUNCTION, on_timer);
  curl_multi_setopt(worker->multi, CURLMOPT_TIMERDATA, worker);
  curl_multi_setopt(worker->multi, CURLMOPT_MAXCONNECTS, (long)worker->set.parallel);
  return 0;
}

void object_loop_close(struct object_worker *worker) {
  for (uint64_t i = 0; worker->lanes && i < worker->set.parallel; i++) {
    struct object_lane *lane = &worker->lanes[i];
    if (!lane->easy)
      continue;
    object_loop_stop(lane);
    object_exchange_clear(lane);
    curl_easy_cleanup(lane->easy);
    free(lane->object_url);
  }
  if (worker->multi)
    curl_multi_cleanup(worker->multi);
  free(worker->lanes);
  if (worker->epoll_fd >= 0)
    close(worker->epoll_fd);
  if (worker->timer_fd >= 0)
    close(worker->timer_fd);
}

void object_loop_start(struct object_lane *lane) {
  lane->retry_ns = 0;
  curl_easy_setopt(lane->easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
  curl_easy_setopt(lane->easy, CURLOPT_CLOSESOCKETDATA, lane->worker);
  lane->added = curl_multi_add_handle(lane->worker->multi, lane->easy) == CURLM_OK;
  if (!lane->added) // tried again as a broken connection is
    object_lane_ended(lane, CURLE_FAILED_INIT);
}

void object_loop_stop(struct object_lane *lane) {
  if (lane->added)
    curl_multi_remove_handle(lane->worker->multi, lane->easy);
  lane->added = false;
}

static uint32_t take_ended(struct object_worker *worker) {
  uint32_t count = 0;
  CURLMsg *message;
  int rest;
  while ((message = curl_multi_info_read(worker->multi, &rest))) {
    if (message->msg != CURLMSG_DONE)
      continue;
    CURLcode result = message->data.result;
    char *private = NULL;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
    struct object_lane *lane = (struct object_lane *)(void *)private;
    object_loop_stop(lane);
    object_lane_ended(lane, result);
    count++;
  }
  return count;
}

static uint32_t start_again(struct object_worker *worker) {
  uint32_t count = 0;
  uint64_t now = clock_ns();
  for (uint64_t i = 0; i < worker->set.parallel; i++) {
    struct object_lane *lane = &worker->lanes[i];
    if (!lane->busy || lane->retry_ns == 0 || lane->retry_ns > now)
      continue;
    count++;
    lane->retry_ns = 0;
    if (object_exchange_setup(lane) == 0)
      object_loop_start(lane);
    else
      object_lane_ended(lane, CURLE_OUT_OF_MEMORY);
  }
  return count;
}

// curl has run out of memory: exchanges under way may never end, so they are started again.
static uint32_t fail_all(struct object_worker *worker) {
  uint32_t count = 0;
  for (uint64_t i = 0; i < worker->set.parallel; i++) {
    struct object_lane *lane = &worker->lanes[i];
    if (!lane->busy || !lane->added)
      continue;
    object_loop_stop(lane);
    object_lane_ended(lane, CURLE_OUT_OF_MEMORY);
    count++;
  }
  return count;
}

uint32_t object_loop_run(struct object_worker *worker) {
  struct epoll_event events[EVENTS];
  if (worker->busy == 0 && !worker->armed)
    return 0;
  worker->armed = false;
  CURLMcode code = CURLM_OK;
  int running, ready = epoll_wait(worker->epoll_fd, events, EVENTS, 0);
  uint64_t count;
  for (int i = 0; i < ready && code == CURLM_OK; i++) {
    uint32_t what = events[i].events;
    if (events[i].data.fd == worker->timer_fd) {
      if (read(worker->timer_fd, &count, sizeof count) < 0)
        continue; // it was set anew meanwhile
    } else {
      int bits = (what & EPOLLIN ? CURL_CSELECT_IN : 0) | (what & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                 (what & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
      code = curl_multi_socket_action(worker->multi, events[i].data.fd, bits, &running);
    }
  }
  if (code == CURLM_OK && worker->curl_ns && clock_passed(worker->curl_ns)) {
    worker->curl_ns = 0;
    code = curl_multi_socket_action(worker->multi, CURL_SOCKET_TIMEOUT, 0, &running);
  }
  uint32_t ended = take_ended(worker);
  if (code != CURLM_OK)
    ended += fail_all(worker);
  return ended + start_again(worker);
}

int object_loop_arm(struct object_worker *worker) {
  uint64_t first = worker->curl_ns;
  for (uint64_t i = 0; i < worker->set.parallel; i++) {
    const struct object_lane *lane = &worker->lanes[i];
    if (lane->busy && lane->retry_ns && (!first || lane->retry_ns < first))
      first = lane->retry_ns;
  }
  if (first && clock_passed(first))
    return WEFT_ERR_BUSY;
  struct itimerspec when = {.it_value = clock_timespec(first)}; // 0: never
  if (timerfd_settime(worker->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) < 0)
    return WEFT_ERR_BUSY;
  worker->armed = true;
  return 0;
}
