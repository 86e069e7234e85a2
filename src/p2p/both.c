// Measures both directions at once: they begin together, end when both have measured enough, and have a common window.
#include "p2p/both.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "p2p/meter.h"

enum {
  // least time of a counted part: several time slices, if two processes share one processor
  LEAST_NS = 20000000,
  // and at least so many round trips, since the clocks are compared to half a round trip at best
  LEAST_ROUNDS = 20,
  MOST_LEAST_NS = 2000000000, // upper limit for a value that the peer sends
  CLOCKS = 8,                 // comparisons; the fastest one is used
  HEAR_NS = 20000,            // least time between two checks for messages of the peer
  SMALL = 65536,              // smaller transfers are checked 16 at a time
};

// --- the load ---

struct both {
  struct p2p_session *session;
  uint64_t iterations, least_ns;
  bool peer_runs, counts, enough, peer_enough;
  uint64_t from_ns, from_ended; // of the counted part
  uint64_t heard_ns, deadline_ns;
  struct p2p_meter meter;
};

static int receive_port(struct both *both) {
  json_t *message = NULL;
  int rc = p2p_try_receive(both->session, &message);
  if (rc <= 0)
    return rc;
  if (!both->peer_runs) {
    rc = p2p_expect(message, "running");
    both->peer_runs = rc == 0;
  } else {
    rc = both->peer_enough ? fail(WEFT_ERR_PROTOCOL, "the peer ended one load twice") : p2p_expect(message, "enough");
    both->peer_enough = rc == 0;
  }
  json_decref(message);
  return rc;
}

// Fails if the peer has not begun, or has not ended, by the deadline.
static int judge_time(const struct both *both, uint64_t now) {
  if ((both->counts && !both->enough) || now < both->deadline_ns)
    return 0;
  return fail(WEFT_ERR_TIMEOUT, "the peer did not %s its load within %u ms", both->counts ? "end" : "begin",
              both->session->timeout_ms);
}

static int look(void *arg, uint64_t ended) {
  struct both *both = arg;
  uint64_t now = clock_ns();
  int rc = 0;
  p2p_meter_add(&both->meter, now, ended);
  if (now - both->heard_ns >= HEAR_NS) {
    rc = receive_port(both);
    both->heard_ns = now;
  }
  if (rc == 0 && both->peer_runs && !both->counts) {
    both->counts = true;
    both->from_ns = now;
    both->from_ended = ended;
  }
  if (rc == 0 && both->counts && !both->enough && ended - both->from_ended >= both->iterations &&
      now - both->from_ns >= both->least_ns) {
    both->enough = true;
    both->deadline_ns = now + both->session->timeout_ms * UINT64_C(1000000);
    rc = p2p_send(both->session, json_pack("{s:s}", "say", "enough"));
  }
  if (rc == 0 && both->enough && both->peer_enough)
    return 1;
  return rc == 0 ? judge_time(both, now) : rc;
}

// `first`: this side begins, and counts from the message that the peer runs as well.
static int run(struct p2p_session *session, const struct p2p_load *load, struct p2p_lane *lane, uint64_t least_ns,
               bool first, struct both *both) {
  *both = (struct both){.session = session,
                        .iterations = load->iterations,
                        .least_ns = least_ns,
                        .peer_runs = !first,
                        .deadline_ns = clock_deadline_ms(session->timeout_ms),
                        .meter.every = 1};
  return p2p_lane_run(lane, load->bytes < SMALL ? 16 : 1, look, both);
}

// --- the initiator ---

static int send_load(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local) {
  return p2p_send(session, json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "say", "load", "op", load->op, "bytes",
                                     (json_int_t)load->bytes, "iterations", (json_int_t)load->iterations, "warmup",
                                     (json_int_t)load->warmup, "depth", (json_int_t)load->depth, "region",
                                     (json_int_t)local->region, "address", (json_int_t)(uintptr_t)local->address));
}

static int await_word(struct p2p_session *session, const char *what) {
  json_t *message = NULL;
  int rc = p2p_receive(session, 0, &message);
  if (rc == 0)
    rc = p2p_expect(message, what);
  json_decref(message);
  return rc;
}

// Finds how much the peer's clock is ahead of this one, modulo 2^64, and the round trip time of that comparison.
static int compare_clocks(struct p2p_session *session, uint64_t *ahead, uint64_t *round_ns) {
  *round_ns = UINT64_MAX;
  for (int i = 0; i < CLOCKS; i++) {
    json_t *answer = NULL;
    uint64_t there, begun = clock_ns();
    int rc = p2p_ask(session, json_pack("{s:s}", "say", "clock"), "clock", &answer);
    uint64_t took = clock_ns() - begun;
    if (rc == 0)
      rc = p2p_number(answer, "ns", &there);
    json_decref(answer);
    if (rc != 0)
      return rc;
    if (took >= *round_ns)
      continue;
    *round_ns = took;
    *ahead = there - (begun + took / 2);
  }
  return 0;
}

static uint64_t least_of(uint64_t round_ns) {
  uint64_t rounds = round_ns < MOST_LEAST_NS ? round_ns * LEAST_ROUNDS : MOST_LEAST_NS;
  rounds = rounds < MOST_LEAST_NS ? rounds : MOST_LEAST_NS;
  return rounds > LEAST_NS ? rounds : LEAST_NS;
}

struct window {
  uint64_t from, until; // by this side's clock
};

static int find_window(struct p2p_session *session, const struct p2p_meter *meter, uint64_t ahead,
                       struct window *window) {
  json_t *loaded = NULL;
  uint64_t begun, ended;
  int rc = p2p_receive(session, 0, &loaded);
  if (rc == 0)
    rc = p2p_expect(loaded, "loaded");
  if (rc == 0)
    rc = p2p_number(loaded, "begun", &begun);
  if (rc == 0)
    rc = p2p_number(loaded, "ended", &ended);
  json_decref(loaded);
  if (rc != 0)
    return rc;
  begun -= ahead;
  ended -= ahead;
  *window = (struct window){meter->list[0].ns, meter->last.ns};
  window->from = begun > window->from ? begun : window->from;
  window->until = ended < window->until ? ended : window->until;
  return 0;
}

static int ask_count(struct p2p_session *session, const struct window *window, uint64_t ahead, double *transfers) {
  json_t *answer = NULL;
  int rc = p2p_ask(session,
                   json_pack("{s:s, s:I, s:I}", "say", "count", "from", (json_int_t)(window->from + ahead), "until",
                             (json_int_t)(window->until + ahead)),
                   "counted", &answer);
  const json_t *said = json_object_get(answer, "transfers");
  if (rc == 0 && (!json_is_number(said) || json_number_value(said) < 0))
    rc = fail(WEFT_ERR_PROTOCOL, "the peer's message \"counted\" lacks the number \"transfers\"");
  if (rc == 0)
    *transfers = json_number_value(said);
  json_decref(answer);
  return rc;
}

// Both sides ran at least `least_ns` after they knew of each other, so a window that is much shorter is refused.
static void settle(const struct both *both, const struct p2p_load *load, const struct window *window, double there,
                   struct p2p_result *result) {
  double ns = window->until > window->from ? (double)(window->until - window->from) : 0;
  double here = p2p_meter_between(&both->meter, window->from, window->until);
  result->gbps = result->peer_gbps = 0;
  if (ns < (double)both->least_ns / 2 || here < 1 || there < 1) {
    snprintf(result->refused, sizeof result->refused,
             "the two directions ran at the same time for %.3g ms, with %.0f transfers of the initiator and %.0f of "
             "the target: want %.3g ms or more, and some transfers of each, so want more iterations",
             ns / 1e6, here, there, (double)both->least_ns / 2e6);
    return;
  }
  result->window_s = ns / 1e9;
  result->gbps = (double)load->bytes * here / ns;
  result->peer_gbps = (double)load->bytes * there / ns;
}

static int lead(struct p2p_session *session, const struct p2p_load *load, struct p2p_lane *lane, struct both *both,
                struct p2p_result *result) {
  uint64_t ahead = 0, round_ns;
  struct window window;
  double there = 0;
  int rc = await_word(session, "warm");
  if (rc == 0)
    rc = compare_clocks(session, &ahead, &round_ns);
  uint64_t least_ns = rc == 0 ? least_of(round_ns) : 0;
  if (rc == 0)
    rc = p2p_send(session, json_pack("{s:s, s:I}", "say", "go", "least", (json_int_t)least_ns));
  if (rc == 0)
    rc = run(session, load, lane, least_ns, true, both);
  if (rc == 0)
    rc = find_window(session, &both->meter, ahead, &window);
  if (rc == 0)
    rc = ask_count(session, &window, ahead, &there);
  if (rc == 0)
    settle(both, load, &window, there, result);
  return rc;
}

int p2p_both_lead(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                  const struct p2p_remote *remote, struct p2p_result *result) {
  struct p2p_lane *lane = NULL;
  struct both *both = malloc(sizeof *both);
  if (!both)
    return fail(WEFT_ERR_NOMEM, "no memory for the times of a load");
  int rc = send_load(session, load, local);
  if (rc == 0)
    rc = p2p_lane_open(session, load, local, remote, &lane);
  if (rc == 0)
    rc = lead(session, load, lane, both, result);
  p2p_lane_close(lane);
  free(both);
  return rc;
}

// --- the target ---

// Answers requests for this side's clock until "go" comes.
static int await_go(struct p2p_session *session, uint64_t *least_ns) {
  for (;;) {
    json_t *message = NULL;
    int rc = p2p_receive(session, 0, &message);
    bool asks = rc == 0 && strcmp(p2p_text(message, "say"), "clock") == 0;
    if (asks)
      rc = p2p_send(session, json_pack("{s:s, s:I}", "say", "clock", "ns", (json_int_t)clock_ns()));
    else if (rc == 0)
      rc = p2p_expect(message, "go");
    if (rc == 0 && !asks)
      rc = p2p_number(message, "least", least_ns);
    json_decref(message);
    if (rc == 0 && !asks && *least_ns > MOST_LEAST_NS)
      rc = fail(WEFT_ERR_PROTOCOL, "a load of %" PRIu64 " ns at least: want %d at most", *least_ns, MOST_LEAST_NS);
    if (rc != 0 || !asks)
      return rc;
  }
}

static int answer_count(struct p2p_session *session, const struct p2p_meter *meter) {
  json_t *message = NULL;
  uint64_t from, until;
  int rc = p2p_send(session, json_pack("{s:s, s:I, s:I}", "say", "loaded", "begun", (json_int_t)meter->list[0].ns,
                                       "ended", (json_int_t)meter->last.ns));
  if (rc == 0)
    rc = p2p_receive(session, 0, &message);
  if (rc == 0)
    rc = p2p_expect(message, "count");
  if (rc == 0)
    rc = p2p_number(message, "from", &from);
  if (rc == 0)
    rc = p2p_number(message, "until", &until);
  json_decref(message);
  if (rc != 0)
    return rc;
  return p2p_send(session,
                  json_pack("{s:s, s:f}", "say", "counted", "transfers", p2p_meter_between(meter, from, until)));
}

static int follow(struct p2p_session *session, const struct p2p_load *load, struct p2p_lane *lane, struct both *both) {
  uint64_t least_ns = 0;
  int rc = p2p_send(session, json_pack("{s:s}", "say", "warm"));
  if (rc == 0)
    rc = await_go(session, &least_ns);
  if (rc == 0)
    rc = p2p_send(session, json_pack("{s:s}", "say", "running"));
  if (rc == 0)
    rc = run(session, load, lane, least_ns, false, both);
  return rc == 0 ? answer_count(session, &both->meter) : rc;
}

int p2p_both_follow(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                    const struct p2p_remote *remote) {
  struct p2p_lane *lane = NULL;
  struct both *both = malloc(sizeof *both);
  if (!both)
    return fail(WEFT_ERR_NOMEM, "no memory for the times of a load");
  int rc = p2p_lane_open(session, load, local, remote, &lane);
  if (rc == 0)
    rc = follow(session, load, lane, both);
  p2p_lane_close(lane);
  free(both);
  return rc;
}
