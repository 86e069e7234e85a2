// The initiator: goes through sizes and operations.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "p2p/measure.h"

enum { MOST_AT_ONCE = 256 << 20 }; // bytes of a buffer, unless one size alone needs more

struct initiator {
  const struct p2p_config *config;
  const struct p2p_sizes *sizes;
  struct p2p_session session;
  struct p2p_buffer buffer;
  struct p2p_remote remote;
  struct p2p_results results;
  uint64_t seed;
};

// --- set-up ---

uint64_t p2p_buffer_bytes(const struct p2p_config *config, const struct p2p_sizes *sizes) {
  uint64_t most = sizes->largest * config->depth;
  if (most > MOST_AT_ONCE)
    most = sizes->largest > MOST_AT_ONCE ? sizes->largest : MOST_AT_ONCE;
  return most;
}

static int handshake(struct initiator *one) {
  char address[300];
  bool v6 = strchr(one->config->host, ':') != NULL;
  snprintf(address, sizeof address, v6 ? "[%s]:%u" : "%s:%u", one->config->host, one->config->port);
  int rc = weft_agent_meet(one->session.agent, address, one->config->timeout_ms, &one->session.peer);
  uint64_t bytes = p2p_buffer_bytes(one->config, one->sizes);
  json_t *ready = NULL;
  if (rc == 0)
    rc = p2p_ask(&one->session,
                 json_pack("{s:s, s:i, s:I}", "say", "hello", "version", P2P_VERSION, "bytes", (json_int_t)bytes),
                 "ready", &ready);
  if (rc == 0)
    rc = p2p_number(ready, "region", &one->remote.region);
  if (rc == 0)
    rc = p2p_number(ready, "address", &one->remote.address);
  json_decref(ready);
  if (rc == 0)
    rc = p2p_await_region(&one->session, one->remote.region);
  if (rc == 0)
    rc = p2p_buffer_open(&one->buffer, one->session.agent, one->config->memory, one->config->gpu, bytes);
  return rc;
}

// --- a size ---

static int ask_contents(struct initiator *one, const char *say, const char *answer, uint64_t seed, uint64_t bytes) {
  json_t *message = json_pack("{s:s, s:I, s:I}", "say", say, "seed", (json_int_t)seed, "bytes", (json_int_t)bytes);
  return p2p_ask(&one->session, message, answer, NULL);
}

// The source holds what the destination does not.
static int set_contents(struct initiator *one, enum weft_transfer_op op, uint64_t bytes) {
  one->seed += 2;
  uint64_t here = one->seed + (op == WEFT_TRANSFER_READ), there = one->seed + (op == WEFT_TRANSFER_WRITE);
  int rc = p2p_buffer_fill(&one->buffer, here, bytes);
  return rc == 0 ? ask_contents(one, "fill", "filled", there, bytes) : rc;
}

static int check_contents(struct initiator *one, enum weft_transfer_op op, uint64_t bytes) {
  if (op == WEFT_TRANSFER_WRITE)
    return ask_contents(one, "check", "checked", one->seed, bytes);
  return p2p_buffer_check(&one->buffer, one->seed, bytes);
}

// The peer loads too, towards this side's buffer. Nothing is checked then: the two overwrite each other's sources.
static int start_peer(struct initiator *one, const struct p2p_load *load) {
  return p2p_send(&one->session, json_pack("{s:s, s:i, s:I, s:i, s:i, s:i, s:I, s:I}", "say", "load", "op", load->op,
                                           "bytes", (json_int_t)load->bytes, "iterations", load->iterations, "warmup",
                                           load->warmup, "depth", load->depth, "region", (json_int_t)one->buffer.region,
                                           "address", (json_int_t)(uintptr_t)one->buffer.address));
}

static int await_peer(struct initiator *one, double *gbps) {
  json_t *loaded = NULL;
  int rc = p2p_receive(&one->session, 0, &loaded);
  if (rc == 0)
    *gbps = json_number_value(json_object_get(loaded, "gbps"));
  json_decref(loaded);
  return rc;
}

static int run_transfers(struct initiator *one, enum weft_transfer_op op, uint64_t bytes, struct p2p_result *result) {
  const struct p2p_config *config = one->config;
  struct p2p_load load = {.op = op,
                          .bytes = bytes,
                          .iterations = config->iterations,
                          .warmup = config->warmup,
                          .depth = config->depth,
                          .transport = config->transport};
  uint32_t places = p2p_places(one->buffer.length, bytes, config->depth);
  result->depth = places;
  bool check = !config->no_check;
  int rc = check ? set_contents(one, op, bytes * places) : 0;
  if (rc == 0)
    rc = p2p_latency(&one->session, &load, &one->buffer, &one->remote, &result->latency, result->transport);
  if (rc == 0)
    rc = p2p_bandwidth(&one->session, &load, &one->buffer, &one->remote, &result->gbps);
  if (rc == 0 && check)
    rc = check_contents(one, op, bytes * places);
  result->checked = rc == 0 && check;
  if (rc != 0 || !config->bidirectional)
    return rc;
  rc = start_peer(one, &load);
  if (rc == 0)
    rc = p2p_bandwidth(&one->session, &load, &one->buffer, &one->remote, &result->gbps);
  return rc == 0 ? await_peer(one, &result->peer_gbps) : rc;
}

static int run_notifications(struct initiator *one, struct p2p_result *result) {
  for (uint32_t i = 0; i < one->config->warmup + one->config->iterations; i++) {
    uint64_t ns;
    int rc = p2p_ping(&one->session, (uint32_t)result->bytes, &ns);
    if (rc != 0)
      return rc;
    if (i >= one->config->warmup)
      histogram_add(&result->latency, ns / 2);
  }
  snprintf(result->transport, sizeof result->transport, "-");
  return 0;
}

static void show(const struct initiator *one, enum p2p_op op, uint64_t bytes) {
  char size[32];
  if (!one->config->quiet && isatty(STDERR_FILENO))
    fprintf(stderr, "\r\033[K%s, %s", p2p_op_names[op], p2p_size_text(bytes, size, sizeof size));
}

static int run_one(struct initiator *one, enum p2p_op op, uint64_t bytes) {
  struct p2p_result *result = &one->results.list[one->results.count];
  show(one, op, bytes);
  *result = (struct p2p_result){.op = op, .bytes = bytes, .iterations = one->config->iterations, .depth = 1};
  int rc = op == P2P_OP_NOTIFY
               ? run_notifications(one, result)
               : run_transfers(one, op == P2P_OP_READ ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE, bytes, result);
  if (rc == 0)
    one->results.count++;
  return rc;
}

static int run_all(struct initiator *one) {
  static const enum p2p_op ops[] = {P2P_OP_WRITE, P2P_OP_READ, P2P_OP_NOTIFY};
  int rc = 0;
  for (size_t i = 0; i < sizeof ops / sizeof *ops && rc == 0; i++) {
    if (one->config->op != P2P_OP_ALL && one->config->op != ops[i])
      continue;
    for (uint32_t s = 0; s < one->sizes->count && rc == 0; s++)
      if (ops[i] != P2P_OP_NOTIFY || one->sizes->bytes[s] <= WEFT_AGENT_MAX_NOTIFICATION)
        rc = run_one(one, ops[i], one->sizes->bytes[s]);
    if (rc == 0 && ops[i] == P2P_OP_NOTIFY && one->results.count == 0)
      rc = fail(WEFT_ERR_INVALID, "a notification has at most %d bytes, and every size is above that",
                WEFT_AGENT_MAX_NOTIFICATION);
  }
  if (!one->config->quiet && isatty(STDERR_FILENO))
    fputs("\r\033[K", stderr);
  return rc;
}

int p2p_initiator(const struct p2p_config *config, const struct p2p_sizes *sizes) {
  struct initiator one = {.config = config, .sizes = sizes, .seed = 1};
  one.results.list = calloc(3 * (size_t)sizes->count, sizeof *one.results.list);
  if (!one.results.list)
    return fail(WEFT_ERR_NOMEM, "no memory for the results");
  int rc = p2p_session_open(&one.session, config, NULL);
  if (rc == 0) {
    rc = handshake(&one);
    if (rc == 0)
      rc = run_all(&one);
    if (rc == 0)
      rc = p2p_ask(&one.session, json_pack("{s:s}", "say", "bye"), "bye", NULL);
    p2p_buffer_close(&one.buffer);
    p2p_session_close(&one.session);
  }
  int reported = one.results.count > 0 ? p2p_report(stdout, config, &one.results) : 0;
  free(one.results.list);
  return rc != 0 ? rc : reported;
}
