// The initiator: connects to a target, and asks it to fill and to check the target's buffer.
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "base/signal/stop.h"
#include "base/time/clock.h"
#include "p2p/bench.h"
#include "p2p/both.h"
#include "p2p/bound.h"
#include "p2p/gpus.h"

enum {
  MOST_AT_ONCE = 256 << 20, // bytes of a buffer, unless one size alone needs more
  RETRY_MS = 100,
};

uint64_t p2p_buffer_bytes(const struct p2p_config *config, const struct p2p_sizes *sizes) {
  uint64_t most = sizes->largest * config->depth;
  if (most > MOST_AT_ONCE)
    most = sizes->largest > MOST_AT_ONCE ? sizes->largest : MOST_AT_ONCE;
  return most;
}

// --- set-up ---

// A target may be started after its initiator, and its name may be resolvable only then. So this retries until
// --startup-timeout has passed.
static int meet_when_there(struct p2p_bench *one, const char *address) {
  const struct p2p_config *config = one->config;
  const struct timespec pause = clock_timespec((uint64_t)RETRY_MS * 1000000u);
  uint64_t until = clock_deadline_ms((uint64_t)config->startup_timeout_s * 1000u);
  int rc = weft_agent_meet(one->session.agent, address, config->timeout_ms, &one->session.peer);
  if (rc == WEFT_ERR_UNREACHABLE && !clock_passed(until) && !config->quiet)
    fprintf(stderr, "weft p2p: waiting for a target at %s, for up to %u s\n", address, config->startup_timeout_s);
  while (rc == WEFT_ERR_UNREACHABLE && !clock_passed(until)) {
    nanosleep(&pause, NULL);
    rc = weft_agent_meet(one->session.agent, address, config->timeout_ms, &one->session.peer);
  }
  return rc;
}

// The connection calls cannot be interrupted, and nobody depends on this process yet, so a signal ends it at once.
static int meet(struct p2p_bench *one) {
  const struct p2p_config *config = one->config;
  char address[300];
  bool v6 = strchr(config->host, ':') != NULL;
  snprintf(address, sizeof address, v6 ? "[%s]:%u" : "%s:%u", config->host, config->port);
  stop_at_once(true);
  int rc = meet_when_there(one, address);
  stop_at_once(false);
  return rc;
}

// A target that serves another initiator repeats a "wait" message, so this wait does not time out. It ends when the
// target has finished with that initiator, which the target disconnects if it hangs.
static int await_turn(struct p2p_bench *one, json_t **ready) {
  bool announced = false;
  for (;;) {
    json_t *message = NULL;
    int rc = p2p_receive(&one->session, 0, &message);
    if (rc != 0)
      return rc;
    if (strcmp(p2p_text(message, "say"), "wait") != 0) {
      *ready = message;
      return p2p_expect(message, "ready");
    }
    json_decref(message);
    if (!announced && !one->config->quiet)
      fprintf(stderr, "weft p2p: the target serves another initiator: this one waits for its turn\n");
    announced = true;
  }
}

static int handshake(struct p2p_bench *one) {
  uint64_t bytes = p2p_buffer_bytes(one->config, one->sizes);
  json_t *ready = NULL;
  int rc = meet(one);
  if (rc == 0)
    rc = p2p_send(&one->session,
                  json_pack("{s:s, s:i, s:I}", "say", "hello", "version", P2P_VERSION, "bytes", (json_int_t)bytes));
  if (rc == 0)
    rc = await_turn(one, &ready);
  if (rc == 0)
    rc = p2p_number(ready, "region", &one->remote.region);
  if (rc == 0)
    rc = p2p_number(ready, "address", &one->remote.address);
  if (rc == 0)
    rc = p2p_await_region(&one->session, one->remote.region);
  if (rc == 0)
    rc = p2p_buffer_open(&one->buffer, one->session.agent, one->config->memory, one->config->gpu, bytes);
  if (rc == 0) {
    p2p_gpus_compare(&one->buffer, ready, &one->report.ends);
    p2p_bound_compare(ready, &one->report.ends);
  }
  json_decref(ready);
  return rc;
}

// --- a size ---

static int ask_contents(struct p2p_bench *one, const char *say, const char *answer, uint64_t seed, uint64_t bytes) {
  json_t *message = json_pack("{s:s, s:I, s:I}", "say", say, "seed", (json_int_t)seed, "bytes", (json_int_t)bytes);
  return p2p_ask(&one->session, message, answer, NULL);
}

static int fill(struct p2p_bench *one, const struct p2p_load *load, uint32_t places) {
  uint64_t bytes = load->bytes * places;
  one->seed += 2;
  bool reads = load->op == WEFT_TRANSFER_READ;
  int rc = p2p_buffer_fill(&one->buffer, one->seed + reads, bytes);
  return rc == 0 ? ask_contents(one, "fill", "filled", one->seed + !reads, bytes) : rc;
}

static int check(struct p2p_bench *one, const struct p2p_load *load, uint32_t places) {
  uint64_t bytes = load->bytes * places;
  if (load->op == WEFT_TRANSFER_WRITE)
    return ask_contents(one, "check", "checked", one->seed, bytes);
  return p2p_buffer_check(&one->buffer, one->seed, bytes);
}

static int both_ways(struct p2p_bench *one, const struct p2p_load *load, struct p2p_result *result) {
  return p2p_both_lead(&one->session, load, &one->buffer, &one->remote, result);
}

static const struct p2p_bench_ends ends = {.fill = fill, .check = check, .both_ways = both_ways};

static int run(struct p2p_bench *one) {
  int rc = p2p_session_open(&one->session, one->config, NULL);
  if (rc != 0)
    return rc;
  rc = handshake(one);
  if (rc == 0)
    rc = p2p_bench_run(one);
  if (rc == 0)
    rc = p2p_ask(&one->session, json_pack("{s:s}", "say", "bye"), "bye", NULL);
  rc = p2p_buffer_end(&one->buffer, one->session.peer, rc);
  p2p_session_close(&one->session);
  return rc;
}

int p2p_initiator(const struct p2p_config *config, const struct p2p_sizes *sizes) {
  struct p2p_bench one = {.config = config, .sizes = sizes, .ends = &ends, .seed = 1};
  int rc = p2p_report_begin(&one.report, stdout, config, sizes);
  if (rc != 0)
    return rc;
  rc = run(&one);
  int reported = p2p_report_end(&one.report, rc);
  return rc != 0 ? rc : reported;
}
