// The order of a measurement: operations, sizes, and the steps of each.
#include "p2p/bench.h"

#include <string.h>
#include <unistd.h>

#include "base/signal/stop.h"

// Called after transfers, when the network library has made its connections.
static void note_uses(const struct p2p_bench *bench, struct p2p_result *result) {
  struct weft_peer_info info = WEFT_PEER_INFO_INIT;
  if (weft_agent_peer(bench->session.agent, bench->session.peer, &info) == 0)
    snprintf(result->uses, sizeof result->uses, "%s", info.uses);
}

// The peer's load comes after the check: the two overwrite each other's sources.
static int run_transfers(struct p2p_bench *bench, enum weft_transfer_op op, struct p2p_result *result) {
  const struct p2p_config *config = bench->config;
  struct p2p_load load = {.op = op,
                          .bytes = result->bytes,
                          .iterations = config->iterations,
                          .warmup = config->warmup,
                          .depth = config->depth,
                          .transport = config->transport};
  uint32_t places = p2p_places(bench->buffer.length, result->bytes, config->depth);
  result->depth = places;
  bool check = !config->no_check;
  int rc = check ? bench->ends->fill(bench, &load, places) : 0;
  if (rc == 0)
    rc = p2p_latency(&bench->session, &load, &bench->buffer, &bench->remote, &result->latency, result->transport);
  if (rc == 0)
    rc = p2p_bandwidth(&bench->session, &load, &bench->buffer, &bench->remote, &result->gbps);
  if (rc == 0 && check)
    rc = bench->ends->check(bench, &load, places);
  result->checked = rc == 0 && check;
  if (rc == 0)
    note_uses(bench, result);
  if (rc == 0 && config->bidirectional)
    rc = bench->ends->both_ways(bench, &load, result);
  result->per_second = result->gbps * 1e9 / (double)result->bytes;
  return rc;
}

static int run_notifications(struct p2p_bench *bench, struct p2p_result *result) {
  for (uint32_t i = 0; i < bench->config->warmup + bench->config->iterations; i++) {
    uint64_t ns;
    int rc = p2p_ping(&bench->session, (uint32_t)result->bytes, &ns);
    if (rc != 0)
      return rc;
    if (i >= bench->config->warmup)
      histogram_add(&result->latency, ns / 2);
  }
  double mean = histogram_mean(&result->latency);
  result->per_second = mean > 0 ? 1e9 / mean : 0;
  result->depth = 1;
  snprintf(result->transport, sizeof result->transport, "-");
  return 0;
}

static bool shows(const struct p2p_bench *bench) {
  return !bench->config->quiet && isatty(STDERR_FILENO);
}

static void show(const struct p2p_bench *bench, enum p2p_op op, uint64_t bytes) {
  char size[32];
  if (shows(bench))
    fprintf(stderr, "\r\033[K%s, %s", p2p_op_names[op], p2p_size_text(bytes, size, sizeof size));
}

static void show_nothing(const struct p2p_bench *bench) {
  if (shows(bench))
    fputs("\r\033[K", stderr);
}

static int run_one(struct p2p_bench *bench, enum p2p_op op, uint64_t bytes) {
  struct p2p_result result = {.op = op, .bytes = bytes, .iterations = bench->config->iterations};
  show(bench, op, bytes);
  int rc = op == P2P_OP_NOTIFY
               ? run_notifications(bench, &result)
               : run_transfers(bench, op == P2P_OP_READ ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE, &result);
  show_nothing(bench);
  return rc == 0 ? p2p_report_row(&bench->report, &result) : rc;
}

static bool includes(const struct p2p_bench *bench, enum p2p_op op) {
  if (bench->config->op != P2P_OP_ALL)
    return bench->config->op == op;
  return op != P2P_OP_NOTIFY || bench->session.peer != WEFT_PEER_SELF;
}

int p2p_bench_run(struct p2p_bench *bench) {
  static const enum p2p_op ops[] = {P2P_OP_WRITE, P2P_OP_READ, P2P_OP_NOTIFY};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    for (uint32_t s = 0; s < bench->sizes->count && includes(bench, ops[i]); s++) {
      if (ops[i] == P2P_OP_NOTIFY && bench->sizes->bytes[s] > WEFT_AGENT_MAX_NOTIFICATION)
        continue;
      int rc = stop_check();
      if (rc == 0)
        rc = run_one(bench, ops[i], bench->sizes->bytes[s]);
      if (rc != 0)
        return rc;
    }
  }
  return 0;
}
