// The store has forgotten the run, because it was restarted empty or because leases ran out while it was away. What the
// run is, its processes know: so they put it back, and operations, which go on meanwhile, do not notice.
//
//   1. The lead makes a new lease and the key of the live run, unless another run of the job has come first. The others
//      wait for that key, and take the new lease from it. Each rank does so, too (common/store_writer.h).
//   2. Everybody writes again what it has written: launches, starts, records, exits, the current phase.
//   3. An agent that has done so registers again. The lead waits for all of them and says `restored`. Until then
//   nothing
//      is launched: who does not see a launch of another's yet would make it a second time.
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "run/lead/lead.h"

// From when the store is back: whoever is there hears of it within half a lease's life, or when it comes to renew its
// own.
enum { RESTORE_S = 2 * RUN_LEASE_TTL_S };

void agent_restore_begin(struct agent *agent) {
  if (!agent_restore_is_on(agent))
    agent->restore.deadline_ns = clock_deadline_ms(RESTORE_S * 1000);
  agent->restore.look = true;
}

bool agent_restore_is_on(const struct agent *agent) {
  return agent->restore.look || agent->restore.stage != RESTORE_NONE;
}

// Whether the store still has this agent's lease.
static int check_lease(struct agent *agent, bool *alive) {
  int err = agent->own_lease ? weft_store_lease_keepalive(agent->store, agent->own_lease, NULL) : WEFT_ERR_NOT_FOUND;
  *alive = !err;
  if (err == WEFT_ERR_NOT_FOUND)
    agent->own_lease = 0;
  return err == WEFT_ERR_NOT_FOUND ? 0 : err;
}

static void begin_to_write(struct agent *agent, bool forgot) {
  if (agent->restore.stage == RESTORE_NONE)
    run_directory_event(&agent->directory, "store_forgot", json_pack("{s:s}", "store", agent->endpoints));
  agent->restore.stage = RESTORE_WRITE;
  agent->restore.forgot |= forgot;
  run_reporter_renew(agent->reporter);
}

// The lead found no live run.
static int put_run_back(struct agent *agent) {
  bool created = false;
  int err = agent->own_lease ? 0 : agent_grant_lease(agent);
  if (err)
    return err;
  agent->run_lease = agent->own_lease;
  begin_to_write(agent, true); // it begins when the key is there, whether or not its answer comes here
  err = agent_create_run(agent, &created);
  if (!err && !created)
    return fail(WEFT_ERR_TIMEOUT, "another run of the job came between"); // the next look sees it
  return err ? err : agent_register(agent, &created);
}

// A follower found the run on a new lease.
static int take_lease(struct agent *agent, int64_t lease) {
  bool forgot = lease != agent->run_lease; // else only this agent's own lease ran out
  agent->run_lease = lease;
  begin_to_write(agent, forgot);
  return 0;
}

static int look_at(struct agent *agent, const json_t *live) {
  const char *run = json_string_value(json_object_get(live, "run"));
  int64_t lease = (int64_t)json_integer_value(json_object_get(live, "lease"));
  bool alive = false;
  int err = check_lease(agent, &alive);
  if (err)
    return err;
  if (run && strcmp(run, agent->run) != 0)
    return agent_refuse(agent, live, ", which began when the store had lost this run");
  if (agent->leads && run && !alive)
    return fail(WEFT_ERR_TIMEOUT, "the run's lease is about to go");
  if (agent->leads && !run)
    err = put_run_back(agent);
  else if (!agent->leads && !run)
    return fail(WEFT_ERR_TIMEOUT, "the lead has not put the run back yet");
  else if (!agent->leads && (lease != agent->run_lease || !alive))
    err = take_lease(agent, lease);
  for (uint32_t i = 0; !err && agent->leads && i < agent->lead->num_agents; i++)
    agent->lead->agents[i].here = false; // the inbox will say who is
  if (!err && agent->leads && agent->restore.stage == RESTORE_NONE)
    agent->restore.stage = RESTORE_GATHER;
  return err ? err : run_inbox_read(agent->inbox);
}

static int look(struct agent *agent) {
  json_t *live = NULL;
  int err = run_storage_get(agent->store, agent->keys.live, &live);
  if (!err)
    err = look_at(agent, live);
  if (!err)
    agent->restore.look = false;
  json_decref(live);
  return err;
}

uint32_t agent_restore_missing(const struct agent *agent, struct text *text) {
  const struct lead *lead = agent->lead;
  uint32_t missing = 0;
  for (uint32_t i = 0; agent->leads && i < lead->num_agents; i++)
    if (!lead->agents[i].here && (i == 0 || lead->agents[i].host[0])) // who never came is not missed
      text_add(text, "%sagent %u on %s", missing++ ? ", " : "", i, i ? lead->agents[i].host : agent->host);
  return missing;
}

static int gather(struct agent *agent) {
  char key[RUN_KEY_SIZE];
  if (!agent->leads) {
    if (!agent->restore.forgot || agent->restore.done_lease == agent->run_lease) {
      agent->restore.stage = RESTORE_NONE;
      agent->restore.forgot = false;
    }
    return 0;
  }
  struct text missing = {0};
  bool all_here = agent_restore_missing(agent, &missing) == 0;
  if (all_here)
    agent->restore.stage = RESTORE_NONE;
  if (all_here && agent->restore.forgot) {
    agent->restore.forgot = false;
    run_key(key, &agent->keys, "restored");
    run_reporter_put(agent->reporter, key, json_integer((json_int_t)agent->run_lease));
    run_directory_event(&agent->directory, "store_restored", NULL);
  }
  text_free(&missing);
  return 0;
}

static int write_all(struct agent *agent) {
  bool created = false;
  if (!run_reporter_is_idle(agent->reporter))
    return 0;
  int err = agent->own_lease ? 0 : agent_grant_lease(agent);
  if (!err)
    err = agent_register(agent, &created);
  if (!err && !created)
    return fail(WEFT_ERR_TIMEOUT, "the key of agent %u is held by its own last life", agent->id);
  if (!err)
    agent->restore.stage = RESTORE_GATHER;
  return err;
}

static int too_late(const struct agent *agent) {
  struct text missing = {0};
  agent_restore_missing(agent, &missing);
  int err = 0;
  if (!agent->leads)
    err =
        fail(WEFT_ERR_PEER_LOST, "the store %s lost the run, and the lead of job '%s' did not put it back within %d s",
             agent->endpoints, agent->job, RESTORE_S);
  else if (missing.size)
    err = fail(WEFT_ERR_PEER_LOST, "the store %s lost the run, and %s did not come back within %d s", agent->endpoints,
               missing.data, RESTORE_S);
  else
    err = fail(WEFT_ERR_UNREACHABLE, "the store %s lost the run, and it could not be put back within %d s",
               agent->endpoints, RESTORE_S);
  text_free(&missing);
  return err;
}

int agent_restore_step(struct agent *agent) {
  if (!agent_restore_is_on(agent))
    return 0;
  if (agent->silent_ns) // away again
    agent->restore.deadline_ns = clock_deadline_ms(RESTORE_S * 1000);
  if (clock_passed(agent->restore.deadline_ns))
    return too_late(agent);
  int err = agent->restore.look ? look(agent) : 0;
  if (!err && agent->restore.stage == RESTORE_WRITE)
    err = write_all(agent);
  if (!err && agent->restore.stage == RESTORE_GATHER)
    err = gather(agent);
  if (err == WEFT_ERR_NOT_FOUND) // the lease that was just granted: forgotten again
    agent_restore_begin(agent);
  if (agent_restore_is_on(agent))
    agent_retry(agent);
  return err == WEFT_ERR_NOT_FOUND || run_storage_may_pass(err) ? 0 : err;
}
