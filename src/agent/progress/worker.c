// The transports of an agent.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/progress/loopback.h"
#include "agent/progress/submit.h"
#include "agent/progress/worker.h"
#include "base/fail.h"
#include "base/log.h"
#include "transport/nics.h"

int agent_worker_open(weft_agent_t *agent, const struct transport *transport, bool unasked) {
  if (agent->num_workers == AGENT_MAX_WORKERS)
    return fail(WEFT_ERR_LIMIT, "an agent has at most %d transports", AGENT_MAX_WORKERS);
  struct agent_worker *worker = &agent->workers[agent->num_workers];
  char why[FAIL_DETAIL_SIZE] = ""; // with the folders that were searched it is long
  int rc = transport->probe(why, sizeof why);
  if (rc != 0)
    return fail(rc, "the transport %s does not work here: %s", transport->name, why);
  struct transport_nics nics;
  char owner[AGENT_OWNER];
  agent_owner(owner, agent->name, agent->incarnation);
  transport_nics_choose(transport, TRANSPORT_ANY_GPU, &nics);
  struct transport_options options = {.size = sizeof options,
                                      .on_message = agent->hooks->message,
                                      .on_peer = agent->hooks->link_failed,
                                      .arg = worker,
                                      .settings = nics.settings,
                                      .threads = true,
                                      .owner = owner,
                                      .unasked = unasked};
  worker->transport = transport;
  worker->agent = agent;
  worker->index = agent->num_workers;
  worker->fd = -1;
  rc = transport->open(&options, &worker->worker);
  if (rc != 0)
    return fail_context(rc, "the transport %s does not open", transport->name);
  memcpy(worker->nics, nics.why, sizeof worker->nics);
  if (nics.why[0])
    log_info("agent %s: NICs of %s: %s", agent->name, transport->name, nics.why);
  worker->concurrent = worker->worker->abilities.flags & TRANSPORT_CONCURRENT_POST;
  for (int op = 0; op < 2; op++) {
    worker->traces[op].text = worker->trace_texts[op];
    snprintf(worker->trace_texts[op], sizeof worker->trace_texts[op], "%s %s",
             op == WEFT_TRANSFER_READ ? "READ" : "WRITE", transport->name);
  }
  return 0;
}

void agent_worker_discard(struct agent_worker *worker) {
  worker->transport->close(worker->worker);
  worker->worker = NULL;
}

static int open_one(weft_agent_t *agent, const struct transport *transport, bool unasked) {
  int rc = agent_worker_open(agent, transport, unasked);
  agent->num_workers += rc == 0;
  return rc;
}

bool agent_worker_is_open(const weft_agent_t *agent, const char *name) {
  for (uint32_t i = 0; i < agent->num_workers; i++)
    if (strcmp(agent->workers[i].transport->name, name) == 0)
      return true;
  return false;
}

int agent_worker_missing(int rc, const char *name) {
  bool elsewhere = weft_err_scope(rc) == WEFT_SCOPE_SELF || rc == WEFT_ERR_LIMIT || rc == WEFT_ERR_NOT_FOUND;
  return elsewhere ? rc : fail_context(WEFT_ERR_UNSUPPORTED, "\"%s\" was asked for", name);
}

// Opens all of them, or fails for the missing one.
static int open_named(weft_agent_t *agent, const char *names) {
  while (*names) {
    size_t length = strcspn(names, ",");
    char name[64];
    if (length == 0 || length >= sizeof name)
      return fail(WEFT_ERR_INVALID, "transports is not a list of names like \"shm,ucx\": \"%s\"", names);
    snprintf(name, sizeof name, "%.*s", (int)length, names);
    const struct transport *transport;
    int rc = agent_worker_is_open(agent, name) ? 0 : transport_find(name, &transport);
    if (rc == 0 && !agent_worker_is_open(agent, name))
      rc = open_one(agent, transport, false);
    if (rc != 0)
      return agent_worker_missing(rc, name);
    names += length + (names[length] == ',');
  }
  return 0;
}

static void open_all(weft_agent_t *agent) {
  for (const char *const *name = transport_names(); *name; name++) {
    const struct transport *transport;
    if (transport_find(*name, &transport) != 0 || open_one(agent, transport, true) != 0)
      log_info("%s", weft_last_error());
  }
}

int agent_workers_open(weft_agent_t *agent, const struct transport *const *more) {
  int rc = open_one(agent, &agent_transport_self, false);
  for (; rc == 0 && more && *more; more++)
    rc = open_one(agent, *more, false);
  if (rc == 0 && agent->options.transports)
    rc = open_named(agent, agent->options.transports);
  else if (rc == 0)
    open_all(agent);
  return rc;
}

void agent_workers_close(weft_agent_t *agent) {
  for (uint32_t i = agent->num_workers; i-- > 0;) {
    struct agent_worker *worker = &agent->workers[i];
    agent_worker_lock(worker);
    worker->transport->close(worker->worker);
    worker->worker = NULL; // posts in its queue have ended
  }
  agent->num_workers = 0;
}

void agent_owner(char owner[AGENT_OWNER], const char *name, uint64_t incarnation) {
  snprintf(owner, AGENT_OWNER, "agent %s %016" PRIx64, name, incarnation);
}
