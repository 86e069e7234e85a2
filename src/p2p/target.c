// The target: lends a buffer and follows the initiator's messages.
#include <arpa/inet.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/signal/stop.h"
#include "p2p/both.h"
#include "p2p/bound.h"
#include "p2p/gpus.h"
#include "p2p/session/queue.h"
#include "p2p/session/session.h"
#include "secure/lobby.h"

// Upper limits of an initiator's requests, so that 32 bits are enough.
enum { MOST_ITERATIONS = 100000000, MOST_DEPTH = 256 };

struct target {
  const struct p2p_config *config;
  uint64_t lend; // bytes
  struct p2p_session session;
  struct p2p_queue queue;
  struct p2p_buffer buffer;
  uint16_t port;
  uint32_t wait_limit_ms; // for an initiator
  bool has_parent;        // the parent process runs the initiator, and prints the failures that this one sends
  bool done;
};

// Checks whether the target registers a buffer of that size. If the host has no room for it, p2p_buffer_open() fails.
static int may_lend(const struct target *target, uint64_t bytes) {
  char wanted[32], most[32];
  if (bytes == 0)
    return fail(WEFT_ERR_PROTOCOL, "the initiator requests a buffer of 0 bytes: want 1 or more");
  if (bytes <= target->lend)
    return 0;
  return fail(WEFT_ERR_LIMIT, "the initiator requests a buffer of %s, but this target offers at most %s (--lend)",
              p2p_size_text(bytes, wanted, sizeof wanted), p2p_size_text(target->lend, most, sizeof most));
}

static int hello(struct target *target, const json_t *message) {
  uint64_t version, bytes;
  int rc = p2p_number(message, "version", &version);
  if (rc == 0 && version != P2P_VERSION)
    rc = fail(WEFT_ERR_VERSION,
              "the target's weft p2p uses version %d, but the initiator's uses version %" PRIu64
              ": use one Weft for both",
              P2P_VERSION, version);
  if (rc == 0)
    rc = p2p_number(message, "bytes", &bytes);
  if (rc == 0)
    rc = may_lend(target, bytes);
  if (rc != 0)
    return rc;
  p2p_buffer_close(&target->buffer);
  rc = p2p_buffer_open(&target->buffer, target->session.agent, target->config->memory, target->config->gpu, bytes);
  if (rc != 0)
    return rc;
  json_t *ready = json_pack("{s:s, s:I, s:I}", "say", "ready", "region", (json_int_t)target->buffer.region, "address",
                            (json_int_t)(uintptr_t)target->buffer.address);
  p2p_gpus_describe(&target->buffer, ready);
  p2p_bound_describe(ready);
  return p2p_send(&target->session, ready);
}

static int fill(struct target *target, const json_t *message) {
  uint64_t seed, bytes;
  int rc = p2p_number(message, "seed", &seed);
  if (rc == 0)
    rc = p2p_number(message, "bytes", &bytes);
  if (rc == 0 && bytes > target->buffer.length)
    rc = fail(WEFT_ERR_PROTOCOL, "%" PRIu64 " bytes of a buffer of %" PRIu64, bytes, target->buffer.length);
  if (rc != 0)
    return rc;
  bool check = strcmp(p2p_text(message, "say"), "check") == 0;
  rc = check ? p2p_buffer_check(&target->buffer, seed, bytes) : p2p_buffer_fill(&target->buffer, seed, bytes);
  return rc != 0 ? rc : p2p_send(&target->session, json_pack("{s:s}", "say", check ? "checked" : "filled"));
}

// Runs the same load as the initiator at the same time, towards the initiator's buffer (both.h).
static int load_back(struct target *target, const json_t *message) {
  uint64_t op, bytes, iterations, warmup, depth, region, address;
  struct {
    const char *name;
    uint64_t *value;
  } fields[] = {{"op", &op},       {"bytes", &bytes},   {"iterations", &iterations}, {"warmup", &warmup},
                {"depth", &depth}, {"region", &region}, {"address", &address}};
  int rc = 0;
  for (size_t i = 0; i < sizeof fields / sizeof *fields && rc == 0; i++)
    rc = p2p_number(message, fields[i].name, fields[i].value);
  if (rc == 0 && (bytes == 0 || bytes > target->buffer.length || depth == 0 || depth > MOST_DEPTH ||
                  iterations > MOST_ITERATIONS || warmup > MOST_ITERATIONS))
    rc = fail(WEFT_ERR_PROTOCOL, "a load of %" PRIu64 " bytes, %" PRIu64 " at once, %" PRIu64 " in all", bytes, depth,
              iterations);
  if (rc != 0)
    return rc;
  struct p2p_load load = {.op = op == WEFT_TRANSFER_READ ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE,
                          .bytes = bytes,
                          .iterations = (uint32_t)iterations,
                          .warmup = (uint32_t)warmup,
                          .depth = (uint32_t)depth,
                          .transport = target->config->transport};
  struct p2p_remote remote = {.region = region, .address = address};
  rc = p2p_await_region(&target->session, region);
  return rc != 0 ? rc : p2p_both_follow(&target->session, &load, &target->buffer, &remote);
}

static int obey(struct target *target, const json_t *message) {
  const char *say = p2p_text(message, "say");
  char shown[P2P_SHOWN];
  if (strcmp(say, "hello") == 0)
    return hello(target, message);
  if (strcmp(say, "fill") == 0 || strcmp(say, "check") == 0)
    return fill(target, message);
  if (strcmp(say, "load") == 0)
    return load_back(target, message);
  if (strcmp(say, "bye") != 0)
    return fail(WEFT_ERR_PROTOCOL, "\"%s\" is not a request of weft p2p: is the initiator of another version?",
                p2p_shown(say, shown, sizeof shown));
  target->done = true;
  int rc = p2p_send(&target->session, json_pack("{s:s}", "say", "bye"));
  // the initiator may disconnect before this call has returned, or not wait for an answer
  return rc == WEFT_ERR_PEER_LOST ? 0 : rc;
}

// Gets the next initiator and its first message: one that waits, else the first that connects.
static int next_initiator(struct target *target, json_t **hello) {
  const struct p2p_config *config = target->config;
  target->session.peer = 0;
  if (p2p_queue_next(&target->queue, target->session.agent, &target->session.peer, hello))
    return 0;
  int rc = p2p_receive(&target->session, target->wait_limit_ms, hello);
  if (rc == WEFT_ERR_TIMEOUT && target->session.peer == 0)
    rc = fail(rc,
              "no initiator connected to %s, port %u, within %.1f s: start one sooner, give a larger --timeout-ms, or "
              "give --forever to wait without a limit",
              config->listen, target->port, target->wait_limit_ms / 1e3);
  return rc;
}

// Serves one initiator until its "bye". If the initiator leaves after a failure that was sent to it, returns that
// failure.
static int serve(struct target *target) {
  json_t *message = NULL;
  char why[FAIL_DETAIL_SIZE];
  int sent = 0;
  target->done = false;
  int rc = next_initiator(target, &message);
  while (rc == 0) {
    rc = obey(target, message);
    json_decref(message);
    if (rc != 0 && !stop_came()) {
      sent = rc;
      snprintf(why, sizeof why, "%s", weft_last_error());
      rc = p2p_say_failure(&target->session, rc);
    }
    if (rc == 0 && target->done)
      break;
    if (rc == 0)
      rc = p2p_receive(&target->session, 0, &message);
  }
  if (rc == WEFT_ERR_PEER_LOST && sent != 0 && !target->has_parent)
    rc = fail(sent, "%s", why);
  return p2p_buffer_end(&target->buffer, target->session.peer, rc);
}

static bool is_any(const char *address) {
  return strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
}

static bool is_loopback(const char *address) {
  return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 || strcmp(address, "localhost") == 0;
}

// Prints the command that starts an initiator for this target, with the token that the target made.
static void print_command(const struct p2p_config *config, uint16_t port) {
  char own[HOST_NAME_MAX + 1] = "HOST";
  bool any = is_any(config->listen);
  if (any)
    gethostname(own, sizeof own - 1);
  printf("on %s host: WEFT_TOKEN=%s weft p2p --mode initiator --ip %s --port %u\n",
         is_loopback(config->listen) ? "this" : "the other", config->token, any ? own : config->listen, port);
}

static void report_port(const struct target *target, int out) {
  const struct p2p_config *config = target->config;
  if (out >= 0) {
    if (write(out, &target->port, sizeof target->port) != sizeof target->port)
      return; // the parent process no longer waits for the port
    close(out);
    return;
  }
  if (!config->quiet)
    printf("listening at %s, port %u%s\n", config->listen, target->port,
           is_any(config->listen) ? " (every address of this host)" : "");
  if (config->print_token) // without it nobody could connect
    print_command(config, target->port);
  fflush(stdout);
}

// Serves the expected number of initiators and those that wait meanwhile; with --forever all that connect. Returns the
// first failure, if there was one, with its sentence.
static int serve_all(struct target *target) {
  const struct p2p_config *config = target->config;
  char why[FAIL_DETAIL_SIZE];
  uint32_t served = 0;
  int first = 0;
  bool more = true;
  while (more) {
    int rc = serve(target);
    served += served < config->initiators;
    bool came = target->session.peer != 0; // false: nobody connected before the deadline
    more = config->forever || target->queue.count > 0 || (came && served < config->initiators);
    if (rc == 0)
      continue;
    if (stop_came())
      return rc;
    if (first == 0) {
      first = rc;
      snprintf(why, sizeof why, "%s", weft_last_error());
    }
    if (more)
      fprintf(stderr, "weft p2p: an initiator failed: %s\n", weft_last_error());
  }
  return first ? fail(first, "%s", why) : 0;
}

int p2p_target(const struct p2p_config *config, int port_out) {
  bool has_parent = port_out >= 0; // which ends this process
  struct target target = {.config = config,
                          .lend = UINT64_MAX,
                          .wait_limit_ms = config->forever || has_parent ? WEFT_WAIT_FOREVER : config->timeout_ms,
                          .has_parent = has_parent};
  struct p2p_sizes lend;
  char listen[300];
  bool v6 = strchr(config->listen, ':') != NULL;
  lobby_raise_limit(0);
  snprintf(listen, sizeof listen, v6 ? "[%s]:%u" : "%s:%u", config->listen, config->port);
  int rc = config->lend ? p2p_sizes_parse(config->lend, &lend) : 0;
  if (rc != 0)
    return fail_context(rc, "--lend");
  if (config->lend)
    target.lend = lend.largest;
  rc = p2p_session_open(&target.session, config, listen);
  if (rc != 0)
    return rc;
  target.session.queue = &target.queue;
  rc = weft_agent_port(target.session.agent, &target.port);
  if (rc == 0) {
    report_port(&target, port_out);
    rc = serve_all(&target);
  }
  p2p_queue_clear(&target.queue);
  p2p_session_close(&target.session);
  return rc;
}
