// The conversation of initiator and target: messages as JSON, in notifications.
#include "p2p/session/session.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/signal/stop.h"
#include "base/time/clock.h"
#include "p2p/session/queue.h"

enum { PING = 1, PONG = 2, WORK = 3, SPIN_NS = 200000, YIELD_NS = 5000, NAP_MS = 20, REGIONS = 8 };
enum { WORK_NS = 200000000 }; // much shorter than every sensible --timeout-ms of a waiting peer

int p2p_session_open(struct p2p_session *session, const struct p2p_config *config, const char *listen) {
  char name[WEFT_AGENT_MAX_NAME];
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  snprintf(name, sizeof name, "p2p-%s-%016llx", listen ? "target" : "initiator", (unsigned long long)random_id());
  *session = (struct p2p_session){.timeout_ms = config->timeout_ms, .wake = -1};
  options.name = name;
  options.transports = config->transport;
  options.listen = listen;
  options.token = config->token;
  options.transfer_timeout_ms = config->timeout_ms;
  int rc = weft_agent_open(&session->agent, &options);
  if (rc == 0)
    rc = weft_agent_fd(session->agent, &session->wake);
  if (rc != 0)
    p2p_session_close(session);
  return rc;
}

void p2p_session_close(struct p2p_session *session) {
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", weft_last_error());
  weft_agent_close(session->agent);
  session->agent = NULL;
  fail(0, "%s", why);
}

int p2p_send(struct p2p_session *session, json_t *message) {
  session->work_ns = clock_ns() + WORK_NS; // the peer waits from now on
  return p2p_send_to(session->agent, session->peer, message);
}

int p2p_say_failure(struct p2p_session *session, int err) {
  char text[FAIL_DETAIL_SIZE]; // JSON takes no text that is not UTF-8
  p2p_shown(weft_last_error(), text, sizeof text);
  return p2p_send(session, json_pack("{s:s, s:i, s:s}", "say", "failed", "code", err, "text", text));
}

int p2p_say_work(struct p2p_session *session, uint64_t now_ns) {
  static const char work[] = {WORK};
  if (session->peer == WEFT_PEER_SELF || now_ns < session->work_ns)
    return 0;
  session->work_ns = now_ns + WORK_NS;
  int rc = weft_agent_notify(session->agent, session->peer, work, sizeof work);
  // the peer has not read earlier notifications: it does not wait yet, or it hangs
  return rc == WEFT_ERR_BUSY ? 0 : rc;
}

// --- receiving ---

static bool is_work(const struct weft_notification *note) {
  return note->size > 0 && *(const char *)note->bytes == WORK;
}

// Waits until the agent has something to do, not longer than the deadline.
static void await_news(const struct p2p_session *session, uint64_t deadline_ns) {
  struct pollfd wake = {.fd = session->wake, .events = POLLIN};
  int left = clock_left_ms(deadline_ns);
  poll(&wake, 1, left < NAP_MS ? left : NAP_MS); // the caller checks between polls whether the peer has died
}

// Checks everything that may end a wait, and reminds the waiting initiators.
static int look_around(struct p2p_session *session) {
  int rc = stop_check();
  if (rc == 0 && session->peer != 0)
    rc = weft_agent_check(session->agent, session->peer);
  if (rc == 0 && session->queue)
    p2p_queue_remind(session->queue, session->agent);
  return rc;
}

// 1: `out` is a notification of the peer; 0: there is none. Messages of others go to the queue, a limited number at a
// time.
static int take(struct p2p_session *session, struct weft_notification *out) {
  enum { AT_A_TIME = 64 };
  for (int i = 0; i < AT_A_TIME; i++) {
    uint32_t count = 0;
    int rc = weft_agent_notifications(session->agent, out, 1, &count);
    if (rc != 0 || count == 0)
      return rc;
    if (session->peer == 0)
      session->peer = out->peer;
    if (out->peer == session->peer)
      return 1;
    if (session->queue)
      p2p_queue_take(session->queue, session->agent, out);
  }
  return 0;
}

// The next notification, at most until the deadline.
static int next(struct p2p_session *session, uint64_t deadline_ns, struct weft_notification *out) {
  uint64_t begun = clock_ns();
  for (;;) {
    int rc = take(session, out);
    if (rc != 0)
      return rc < 0 ? rc : 0;
    uint64_t waited = clock_ns() - begun;
    if (waited < SPIN_NS) {
      if (waited > YIELD_NS) // to the peer, if it is on the same processor
        sched_yield();
      rc = weft_agent_progress(session->agent, NULL);
      if (rc != 0)
        return rc;
      continue;
    }
    rc = look_around(session);
    if (rc == WEFT_ERR_PEER_LOST && take(session, out) == 1) // it said that before it left
      return 0;
    if (rc != 0)
      return rc;
    if (clock_passed(deadline_ns))
      return fail(WEFT_ERR_TIMEOUT, "the peer sent no message for %.1f s", (double)(clock_ns() - begun) / 1e9);
    await_news(session, deadline_ns);
  }
}

// Turns a message about a failure into an error.
static int take_failure(const json_t *message) {
  char text[FAIL_DETAIL_SIZE];
  json_t *code = json_object_get(message, "code");
  json_int_t value = json_is_integer(code) ? json_integer_value(code) : 0;
  int err = value <= WEFT_ERR_INVALID && value >= WEFT_ERR_COMPACTED ? (int)value : WEFT_ERR_PROTOCOL;
  return fail(err, "at the peer: %s", p2p_shown(p2p_text(message, "text"), text, sizeof text));
}

static int parse(const struct weft_notification *note, json_t **message) {
  json_error_t error;
  json_t *read = json_loadb(note->bytes, note->size, 0, &error);
  if (!read || !p2p_text(read, "say")[0]) {
    json_decref(read);
    return fail(WEFT_ERR_PROTOCOL, "the peer sent something that is not a message of weft p2p: is it another version?");
  }
  if (strcmp(p2p_text(read, "say"), "failed") != 0) {
    *message = read;
    return 0;
  }
  int rc = take_failure(read);
  json_decref(read);
  return rc;
}

int p2p_receive(struct p2p_session *session, uint32_t timeout_ms, json_t **message) {
  uint64_t deadline_ns = clock_wait_deadline(timeout_ms ? timeout_ms : session->timeout_ms);
  for (;;) {
    struct weft_notification note;
    int rc = next(session, deadline_ns, &note);
    if (rc != 0)
      return rc;
    bool work = is_work(&note);
    if (!work && (note.size == 0 || *(const char *)note.bytes != PING))
      return parse(&note, message);
    char pong[WEFT_AGENT_MAX_NOTIFICATION];
    memcpy(pong, note.bytes, note.size);
    pong[0] = PONG;
    rc = work ? 0 : weft_agent_notify(session->agent, session->peer, pong, note.size);
    if (rc != 0)
      return rc;
    if (timeout_ms == 0) // the peer is at work
      deadline_ns = clock_deadline_ms(session->timeout_ms);
  }
}

int p2p_try_receive(struct p2p_session *session, json_t **message) {
  struct weft_notification note;
  int rc = weft_agent_progress(session->agent, NULL);
  if (rc == 0)
    rc = take(session, &note);
  if (rc == 0) {
    rc = look_around(session);
    if (rc == WEFT_ERR_PEER_LOST && take(session, &note) == 1) // it said that before it left
      rc = 1;
  }
  if (rc != 1 || is_work(&note))
    return rc == 1 ? 0 : rc;
  rc = parse(&note, message);
  return rc == 0 ? 1 : rc;
}

int p2p_ask(struct p2p_session *session, json_t *message, const char *what, json_t **answer) {
  json_t *received = NULL;
  int rc = p2p_send(session, message);
  if (rc == 0)
    rc = p2p_receive(session, 0, &received);
  if (rc == 0)
    rc = p2p_expect(received, what);
  if (rc == 0 && answer)
    *answer = received;
  else
    json_decref(received);
  return rc;
}

int p2p_await_region(struct p2p_session *session, weft_region_t region) {
  uint64_t deadline_ns = clock_deadline_ms(session->timeout_ms);
  for (;;) {
    struct weft_region_info info[REGIONS];
    uint32_t count = 0;
    int rc = weft_agent_regions(session->agent, session->peer, info, sizeof *info, REGIONS, &count);
    if (rc == 0 && count > REGIONS)
      rc = fail(WEFT_ERR_LIMIT, "the peer has %u regions, but a target has at most %d", count, REGIONS);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
      if (info[i].region == region)
        return 0;
    if (rc == 0)
      rc = look_around(session);
    if (rc == 0 && clock_passed(deadline_ns))
      rc = fail(WEFT_ERR_TIMEOUT, "the peer's buffer was not published within %u ms", session->timeout_ms);
    if (rc == 0)
      rc = weft_agent_progress(session->agent, NULL);
    if (rc != 0)
      return rc;
    poll(NULL, 0, 1);
  }
}

int p2p_ping(struct p2p_session *session, uint32_t size, uint64_t *ns) {
  char ping[WEFT_AGENT_MAX_NOTIFICATION] = {PING};
  struct weft_notification note;
  uint64_t begun = clock_ns();
  int rc = weft_agent_notify(session->agent, session->peer, ping, size);
  if (rc == 0)
    rc = next(session, clock_deadline_ms(session->timeout_ms), &note);
  if (rc == 0 && (note.size != size || *(const char *)note.bytes != PONG))
    rc =
        fail(WEFT_ERR_PROTOCOL, "the peer answered a notification of %u bytes with another one of %u", size, note.size);
  if (rc == 0)
    *ns = clock_ns() - begun;
  return rc;
}
