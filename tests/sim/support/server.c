// The simulated store, which carries out requests.
#include <stdlib.h>
#include <string.h>

#include "sim/support/state.h"
#include "store/local/local.h"

void sim_server_open(struct sim *sim) {
  struct sim_server *server = &sim->server;
  server->core = core_create(server->limits);
  if (!server->core)
    abort();
  server->number++;
  server->expiry_at = UINT64_MAX;
  sim_judge_watch(sim, true);
}

void sim_server_close(struct sim *sim) {
  sim_judge_watch(sim, false);
  core_free(sim->server.core);
  sim->server.core = NULL;
}

bool sim_server_is_up(const struct sim *sim) {
  return sim->server.down_until == 0;
}

// Copies a string to `*at`, and moves `*at` behind it.
static char *keep(char **at, const char *text, size_t size) {
  char *copy = *at;
  memcpy(copy, text, size);
  copy[size] = '\0';
  *at += size + 1;
  return copy;
}

static size_t strings_size(const struct weft_store_txn *txn) {
  size_t size = 0;
  for (size_t i = 0; i < txn->num_compares; i++)
    size += strlen(txn->compares[i].key) + 1;
  for (size_t i = 0; i < txn->num_success; i++)
    size += strlen(txn->success[i].key) + 1 + txn->success[i].value_len + 1;
  return size;
}

// The machine's transactions compare CREATE and MOD with EQUAL, and do nothing if a comparison fails.
static void copy_txn(struct sim_request *copy, const struct weft_store_txn *txn) {
  copy->compares = calloc(txn->num_compares + 1, sizeof *copy->compares);
  copy->ops = calloc(txn->num_success + 1, sizeof *copy->ops);
  copy->strings = malloc(strings_size(txn) + 1);
  if (!copy->compares || !copy->ops || !copy->strings)
    abort();
  char *at = copy->strings;
  for (size_t i = 0; i < txn->num_compares; i++) {
    const struct weft_store_compare *compare = &txn->compares[i];
    if (compare->relation != WEFT_STORE_EQUAL || compare->target > WEFT_STORE_MOD || txn->num_failure > 0)
      abort();
    size_t size = strlen(compare->key);
    copy->compares[i] = (struct core_compare){.range.key = {keep(&at, compare->key, size), size},
                                              .target = compare->target == WEFT_STORE_CREATE ? CORE_CREATE : CORE_MOD,
                                              .relation = CORE_EQUAL,
                                              .number = compare->number};
  }
  for (size_t i = 0; i < txn->num_success; i++) {
    const struct weft_store_op *op = &txn->success[i];
    size_t size = strlen(op->key);
    copy->ops[i] = (struct core_op){.kind = op->kind == WEFT_STORE_PUT ? CORE_PUT : CORE_DELETE,
                                    .range.key = {keep(&at, op->key, size), size},
                                    .value = {op->value ? keep(&at, op->value, op->value_len) : NULL, op->value_len},
                                    .lease = op->lease};
  }
  copy->txn = (struct core_txn){.compares = copy->compares,
                                .num_compares = txn->num_compares,
                                .success = copy->ops,
                                .num_success = txn->num_success};
}

struct sim_request *sim_request_new(const struct group_request *request) {
  struct sim_request *copy = calloc(1, sizeof *copy);
  if (!copy)
    abort();
  copy->request = *request;
  copy->request.txn = NULL;
  copy->parties = 1;
  if (request->kind == GROUP_REQUEST_TXN)
    copy_txn(copy, request->txn);
  return copy;
}

void sim_request_drop(struct sim_request *request) {
  if (--request->parties > 0)
    return;
  core_result_free(&request->result);
  free(request->list.kvs);
  free(request->kvs);
  free(request->compares);
  free(request->ops);
  free(request->strings);
  free(request);
}

static enum core_status read_all(struct sim *sim, struct sim_request *request) {
  char bounds[sizeof SIM_PREFIX];
  const struct core_op op = {.kind = CORE_RANGE, .range = local_range(SIM_PREFIX, true, bounds)};
  enum core_status status = core_run(sim->server.core, &op, &request->result);
  if (status != CORE_OK)
    return status;
  const struct core_response *response = &request->result.responses[0];
  request->result.ops = NULL;
  request->list.kvs = calloc(response->num_records + 1, sizeof *request->list.kvs);
  request->kvs = calloc(response->num_records + 1, sizeof *request->kvs);
  if (!request->list.kvs || !request->kvs)
    abort();
  for (size_t i = 0; i < response->num_records; i++) {
    request->kvs[i] = local_kv(response->records[i]);
    request->list.kvs[i] = &request->kvs[i];
  }
  request->list.count = request->list.total = response->num_records;
  request->list.revision = request->result.revision;
  request->answer.list = &request->list;
  return CORE_OK;
}

static void look_at_leases(struct sim *sim, const struct sim_event *event) {
  if (event->at_ns != sim->server.expiry_at)
    return; // an earlier check was planned later
  sim->server.expiry_at = UINT64_MAX;
  sim_server_expire(sim);
}

static void plan_expiry(struct sim *sim, uint64_t at_ns) {
  if (at_ns >= sim->server.expiry_at)
    return;
  sim->server.expiry_at = at_ns;
  sim_at(sim, at_ns, (struct sim_event){.happen = look_at_leases});
}

// The id comes from the seed, like everything.
static enum core_status grant(struct sim *sim, struct sim_request *request) {
  int64_t id = (int64_t)(random_next(&sim->random) >> 1), ttl_s = request->request.ttl_s;
  enum core_status status = core_lease_grant(sim->server.core, sim->now, &id, &ttl_s);
  request->answer.lease = id;
  plan_expiry(sim, sim->now + (uint64_t)ttl_s * SIM_S);
  return status;
}

static enum core_status run_txn(struct sim *sim, struct sim_request *request) {
  enum core_status status = core_txn(sim->server.core, &request->txn, &request->result);
  request->answer.succeeded = request->result.succeeded;
  request->answer.revision = request->result.revision;
  return status;
}

static enum core_status carry_out(struct sim *sim, struct sim_request *request) {
  int64_t ttl_s;
  switch (request->request.kind) {
  case GROUP_REQUEST_READ:
    return read_all(sim, request);
  case GROUP_REQUEST_GRANT:
    return grant(sim, request);
  case GROUP_REQUEST_KEEPALIVE:
    return core_lease_keepalive(sim->server.core, sim->now, request->request.lease, &ttl_s);
  case GROUP_REQUEST_REVOKE:
    return core_lease_revoke(sim->server.core, request->request.lease);
  case GROUP_REQUEST_TXN:
    return run_txn(sim, request);
  case GROUP_REQUEST_WATCH: // is never sent to the store
    break;
  }
  abort();
}

void sim_server_execute(struct sim *sim, struct sim_request *request) {
  request->executed = true;
  if (!sim_server_is_up(sim)) {
    request->answer.err = WEFT_ERR_UNREACHABLE;
    return;
  }
  request->store_number = sim->server.number;
  enum core_status status = carry_out(sim, request);
  request->answer.err = status == CORE_OK ? 0 : core_status_err(status);
  sim_server_changed(sim);
}

void sim_server_expire(struct sim *sim) {
  struct sim_server *server = &sim->server;
  if (!server->core || (server->down_until && server->stopped))
    return;
  if (core_lease_expire(server->core, sim->now) != CORE_OK)
    abort();
  sim_server_changed(sim);
  plan_expiry(sim, core_lease_next_expiry(server->core));
}

void sim_server_changed(struct sim *sim) {
  if (sim->judge.woken)
    sim_judge_look(sim);
}
