// The lead's part: waits for the agents, begins each phase when every rank has done the one before, and ends the run.
#include "run/lead/lead.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "base/text/printable.h"
#include "base/time/clock.h"
#include "run/common/roster.h"

enum {
  SPARE_OPERATIONS = 64, // of a phase, beside the timed ones and the warm-up
  END_MS = 10000,        // from the end of the last phase to the end of the last process
};

struct seat *lead_seat(const struct agent *agent, uint32_t phase, int32_t rank) {
  const struct plan_ranks *ranks = &agent->plan->ranks;
  if (phase >= agent->plan->num_phases)
    return NULL;
  for (uint32_t i = 0; i < ranks->count; i++)
    if (ranks->rank[i] == rank)
      return &agent->lead->seats[(size_t)phase * ranks->count + i];
  return NULL;
}

uint32_t lead_launch_phase(const struct agent *agent, uint32_t phase, int32_t rank) {
  while (phase > 0 && !plan_ranks_contain(&agent->plan->phases[phase].joins, rank))
    phase--;
  return phase;
}

int lead_open(struct agent *agent) {
  struct lead *lead = calloc(1, sizeof *lead);
  if (!lead)
    return fail(WEFT_ERR_NOMEM, "no memory for the lead");
  agent->lead = lead;
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(lead->started, sizeof lead->started, "%Y-%m-%dT%H:%M:%SZ", &utc);
  lead->started_ns = clock_ns();
  lead->num_agents = agent->config.num_agents ? agent->config.num_agents : 1;
  lead->deadline_ns = clock_deadline_ms((uint64_t)agent->config.startup_timeout_s * 1000);
  lead->seats = calloc((size_t)agent->plan->num_phases * agent->plan->ranks.count, sizeof *lead->seats);
  lead->agents = calloc(lead->num_agents, sizeof *lead->agents);
  run_directory_event(&agent->directory, "run_begin", json_pack("{s:s, s:s}", "host", agent->host, "run", agent->run));
  return lead->seats && lead->agents ? 0 : fail(WEFT_ERR_NOMEM, "no memory for %u phases", agent->plan->num_phases);
}

void lead_close(struct agent *agent) {
  struct lead *lead = agent->lead;
  if (!lead)
    return;
  for (size_t i = 0; lead->seats && i < (size_t)agent->plan->num_phases * agent->plan->ranks.count; i++)
    run_record_free(&lead->seats[i].record);
  free(lead->seats);
  for (uint32_t i = 0; lead->agents && i < lead->num_agents; i++)
    json_decref(lead->agents[i].gpus);
  free(lead->agents);
  free(lead);
  agent->lead = NULL;
}

static int take_agent(struct agent *agent, const struct run_news *news, const char *id) {
  struct lead *lead = agent->lead;
  char *end;
  unsigned long number = strtoul(id, &end, 10);
  if (end == id || *end || number >= lead->num_agents)
    return 0; // somebody else's key
  struct seen_agent *seen = &lead->agents[number];
  if (news->kind == WEFT_STORE_EVENT_DELETE) {
    seen->here = false;
    return lead->state == LEAD_ENDS || agent_restore_is_on(agent)
               ? 0
               : fail(WEFT_ERR_PEER_LOST, "agent %lu on %s is gone, and its ranks with it", number, seen->host);
  }
  const char *host = json_string_value(json_object_get(news->json, "host"));
  seen->here = true;
  seen->slots = (uint32_t)json_integer_value(json_object_get(news->json, "slots"));
  snprintf(seen->host, sizeof seen->host, "%s", host ? host : "?");
  printable_line(seen->host);
  json_decref(seen->gpus);
  seen->gpus = json_incref(json_object_get(news->json, "gpus"));
  seen->shares_gpus = json_is_true(json_object_get(news->json, "share_gpus"));
  return 0;
}

// The first GPU that both use, NULL for none.
static const char *common_gpu(const struct seen_agent *a, const struct seen_agent *b) {
  const json_t *one, *other;
  size_t i, k;
  json_array_foreach(a->gpus, i, one) {
    json_array_foreach(b->gpus, k, other) {
      if (json_equal(one, other))
        return json_string_value(one);
    }
  }
  return NULL;
}

// Agents of one host each count the GPUs that they see from the first on.
static int check_gpus(const struct lead *lead) {
  for (uint32_t i = 0; i < lead->num_agents; i++) {
    for (uint32_t k = i + 1; k < lead->num_agents; k++) {
      const struct seen_agent *a = &lead->agents[i], *b = &lead->agents[k];
      const char *gpu = a->shares_gpus && b->shares_gpus ? NULL : common_gpu(a, b);
      if (gpu)
        return fail(WEFT_ERR_UNSUPPORTED,
                    "agents %u and %u on %s both use %s: name the GPUs of each in its CUDA_VISIBLE_DEVICES, or give "
                    "both --share-gpus",
                    i, k, a->host, gpu);
    }
  }
  return 0;
}

static void take_exit(struct agent *agent, struct seat *seat, const json_t *exit) {
  const char *boot = json_string_value(json_object_get(exit, "boot"));
  seat->ended = true;
  seat->planned = json_is_true(json_object_get(exit, "planned"));
  seat->kill_ns = (uint64_t)json_integer_value(json_object_get(exit, "kill_ns"));
  snprintf(seat->boot, sizeof seat->boot, "%s", boot ? boot : "");
  if (!seat->planned)
    lead_note_exit(agent, exit);
}

int lead_take(struct agent *agent, const struct run_news *news) {
  uint32_t phase, rank;
  const char *tail = run_key_tail(&agent->keys, news->key, "agent");
  if (tail)
    return take_agent(agent, news, tail);
  if (news->kind != WEFT_STORE_EVENT_PUT)
    return 0;
  struct seat *seat = NULL;
  if (run_key_tail(&agent->keys, news->key, "fail")) {
    lead_note_report(agent, news->json);
  } else if (run_key_pair(&agent->keys, news->key, "start", &phase, &rank)) {
    if ((seat = lead_seat(agent, phase, (int32_t)rank)))
      seat->started = true;
  } else if (run_key_pair(&agent->keys, news->key, "record", &phase, &rank)) {
    if ((seat = lead_seat(agent, phase, (int32_t)rank))) {
      run_record_free(&seat->record);
      seat->has_record = true;
      return run_record_from_json(&seat->record, news->json);
    }
  } else if (run_key_pair(&agent->keys, news->key, "exit", &phase, &rank)) {
    if ((seat = lead_seat(agent, phase, (int32_t)rank)))
      take_exit(agent, seat, news->json);
  }
  return 0;
}

static void publish_phase(struct agent *agent) {
  char key[RUN_KEY_SIZE];
  run_key(key, &agent->keys, "current");
  run_reporter_put(agent->reporter, key, json_integer(agent->current));
}

// Launches what fits here, then tells everybody: others serve what is left.
static int begin_phase(struct agent *agent, uint32_t phase) {
  struct lead *lead = agent->lead;
  agent->current = phase;
  agent->begun = true;
  lead->all_started = false;
  lead->deadline_ns = clock_deadline_ms((uint64_t)agent->config.startup_timeout_s * 1000);
  run_directory_event(&agent->directory, "phase_begin", json_pack("{s:i}", "phase", (int)phase));
  const struct plan_phase *it = &agent->plan->phases[phase];
  bool kills = agent->config.negative != RUN_NEGATIVE_LEAVE;
  progress_show(&agent->progress, true, "phase %u (%u of %u): %u ranks, %u join, %u leave, %u killed", phase, phase + 1,
                agent->plan->num_phases, it->live.count, it->joins.count,
                it->leaves.count + (kills ? 0 : it->kills.count), kills ? it->kills.count : 0);
  int err = agent_launch(agent, phase);
  publish_phase(agent);
  return err;
}

// Where the others find the store, as an option of theirs. An embedded store that listens on all addresses is at this
// host's name.
static void describe_store(const struct agent *agent, struct text *text) {
  const char *scheme = strstr(agent->endpoints, "://"), *host = scheme ? scheme + 3 : agent->endpoints;
  bool all = strncmp(host, "0.0.0.0:", 8) == 0 || strncmp(host, "[::]:", 5) == 0;
  if (!agent->server)
    text_add(text, "--store %s", agent->endpoints);
  else if (all)
    text_add(text, "--rank-server %s%s", agent->host, strrchr(host, ':'));
  else
    text_add(text, "--rank-server %s", host);
  if (strcmp(agent->job, RUN_DEFAULT_JOB) != 0)
    text_add(text, " --job %s", agent->job);
}

// Says what the others are to be started with: on the terminal, where the token was made for this run, as a line of its
// own that can be pasted.
static void show_waiting(struct agent *agent, uint32_t here) {
  struct lead *lead = agent->lead;
  struct text store = {0};
  describe_store(agent, &store);
  const char *options = store.data ? store.data : "";
  if (!agent->made_token[0]) {
    progress_show(&agent->progress, true, "waiting for agents: %u of %u here; the others%s: weft elastic %s", here,
                  lead->num_agents, agent->server ? ", with the same token" : "", options);
  } else {
    if (!lead->showed_token) {
      progress_hide(&agent->progress);
      fprintf(stderr, "Start each of the other agents, here or on another host, by:\nWEFT_TOKEN=%s weft elastic %s\n",
              agent->made_token, options);
    }
    lead->showed_token = true;
    progress_show(&agent->progress, true, "waiting for agents: %u of %u here", here, lead->num_agents);
  }
  text_free(&store);
}

// When what is awaited is late. While the store is known to be silent, it may have come and nobody can hear of it: then
// it is the store that is late (node/loop.c), and once it answers again, who has something to tell has the time of a
// lease. A store that comes and goes gets no more than it would if it stayed away.
static uint64_t late_ns(const struct agent *agent) {
  uint64_t deadline = agent->lead->deadline_ns, wary = agent->silent_ns ? CLOCK_NEVER : agent->wary_ns;
  uint64_t last = deadline + (agent_patience_s(agent) + RUN_LEASE_TTL_S) * UINT64_C(1000000000);
  uint64_t late = deadline > wary ? deadline : wary;
  return late < last ? late : last;
}

static int gather(struct agent *agent) {
  struct lead *lead = agent->lead;
  uint32_t here = 0, slots = 0;
  for (uint32_t i = 0; i < lead->num_agents; i++) {
    here += lead->agents[i].here;
    slots += lead->agents[i].slots;
  }
  if (here < lead->num_agents) {
    show_waiting(agent, here);
    return clock_passed(late_ns(agent))
               ? fail(WEFT_ERR_TIMEOUT, "%u of %u agents came within %u s (--num-agents, --startup-timeout)", here,
                      lead->num_agents, agent->config.startup_timeout_s)
               : 0;
  }
  int err = plan_check_slots(agent->plan, slots);
  if (err)
    return fail_context(err, "%u agents have %u slots together", here, slots);
  err = check_gpus(lead);
  if (err)
    return err;
  lead->state = LEAD_RUNS;
  return begin_phase(agent, 0);
}

static uint64_t phase_budget_ms(const struct run_config *config) {
  return (uint64_t)config->startup_timeout_s * 1000 +
         ((uint64_t)config->iterations + config->warmup + SPARE_OPERATIONS) * config->timeout_ms;
}

static bool is_done(const struct agent *agent, uint32_t phase, int32_t rank) {
  if (run_roster_dies(agent->plan, agent->config.negative, phase, rank))
    return lead_seat(agent, lead_launch_phase(agent, phase, rank), rank)->ended;
  const struct seat *seat = lead_seat(agent, phase, rank);
  return seat->has_record && seat->record.rank.state == RESULTS_PASSED;
}

// The ranks that have not done (or, while some have not started, not started) the phase, in words.
static uint32_t missing_ranks(const struct agent *agent, const int32_t *ranks, uint32_t count, bool started,
                              struct text *text) {
  uint32_t missing = 0;
  for (uint32_t i = 0; i < count; i++) {
    bool done = is_done(agent, agent->current, ranks[i]); // who dies may not have come to say that it started
    if (!done && (started || !lead_seat(agent, agent->current, ranks[i])->started)) {
      text_add(text, "%s%d", missing ? " " : "", ranks[i]);
      missing++;
    }
  }
  return missing;
}

static int too_late(const struct agent *agent, const char *missing) {
  const struct lead *lead = agent->lead;
  const struct plan_ranks *joins = &agent->plan->phases[agent->current].joins;
  uint32_t slots = 0;
  for (uint32_t i = 0; i < lead->num_agents; i++)
    slots += lead->agents[i].slots;
  if (lead->all_started)
    return fail(WEFT_ERR_TIMEOUT, "phase %u: rank %s did not end it in time", agent->current, missing);
  for (uint32_t i = 0; i < joins->count; i++)
    if (!agent_launch_of(agent, agent->current, joins->rank[i])->claimed)
      return fail(WEFT_ERR_TIMEOUT,
                  "phase %u: no agent launched rank %d within %u s; %u agents have %u slots in all, this one %u free",
                  agent->current, joins->rank[i], agent->config.startup_timeout_s, lead->num_agents, slots,
                  agent_free_slots(agent));
  return fail(WEFT_ERR_TIMEOUT, "phase %u: rank %s did not start it within %u s (logs in %s)", agent->current, missing,
              agent->config.startup_timeout_s, agent->directory.path);
}

static int end_phase(struct agent *agent) {
  struct lead *lead = agent->lead;
  run_directory_event(&agent->directory, "phase_end", json_pack("{s:i}", "phase", (int)agent->current));
  if (agent->current + 1 < agent->plan->num_phases)
    return begin_phase(agent, agent->current + 1);
  lead->state = LEAD_ENDS;
  lead->deadline_ns = clock_deadline_ms(END_MS + agent->config.timeout_ms);
  agent->current = agent->plan->num_phases;
  publish_phase(agent);
  return 0;
}

static int run_phase(struct agent *agent) {
  struct lead *lead = agent->lead;
  int32_t *ranks = malloc((agent->plan->ranks.count + 1) * sizeof *ranks);
  if (!ranks)
    return fail(WEFT_ERR_NOMEM, "no memory for a phase");
  uint32_t count = run_roster_start(agent->plan, agent->config.negative, agent->current, ranks);
  struct text text = {0};
  uint32_t missing = missing_ranks(agent, ranks, count, lead->all_started, &text);
  if (missing == 0 && !lead->all_started) {
    lead->all_started = true;
    lead->deadline_ns = clock_deadline_ms(phase_budget_ms(&agent->config));
    missing = missing_ranks(agent, ranks, count, true, &text);
  }
  progress_show(&agent->progress, false, "phase %u (%u of %u)  [%u ranks]  %s %s", agent->current, agent->current + 1,
                agent->plan->num_phases, count, lead->all_started ? "running" : "joining", text.data ? text.data : "");
  int err = 0;
  if (missing == 0)
    err = end_phase(agent);
  else if (clock_passed(late_ns(agent)))
    err = too_late(agent, text.data);
  text_free(&text);
  free(ranks);
  return err;
}

// Every process that was launched has to end by itself.
static int end_run(struct agent *agent) {
  const struct plan_ranks *ranks = &agent->plan->ranks;
  struct text missing = {0};
  for (uint32_t p = 0; p < agent->plan->num_phases; p++)
    for (uint32_t i = 0; i < ranks->count; i++)
      if (plan_ranks_contain(&agent->plan->phases[p].joins, ranks->rank[i]) &&
          !lead_seat(agent, p, ranks->rank[i])->ended)
        text_add(&missing, " %d", ranks->rank[i]);
  int err = 0;
  if (missing.size == 0)
    agent->over = agent->lead->failure.weight == 0; // else its reason is being decided on
  else if (clock_passed(late_ns(agent)))
    err = fail(WEFT_ERR_TIMEOUT, "the plan is done, but these ranks did not end:%s", missing.data);
  text_free(&missing);
  return err;
}

int lead_step(struct agent *agent) {
  int err = lead_failed(agent);
  if (err)
    return err;
  switch (agent->lead->state) {
  case LEAD_GATHERS:
    return gather(agent);
  case LEAD_RUNS:
    return run_phase(agent);
  case LEAD_ENDS:
    return end_run(agent);
  }
  return 0;
}

uint64_t lead_deadline(const struct agent *agent) {
  const struct lead *lead = agent->lead;
  uint64_t decide = lead->failure.weight ? lead->failure.decide_ns : CLOCK_NEVER;
  uint64_t late = late_ns(agent);
  return decide < late ? decide : late;
}
