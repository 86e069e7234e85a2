// The lead's data about the nodes of the run: which are here, what each has, and the command that starts the others.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/printable.h"
#include "base/time/clock.h"
#include "run/common/own_address.h"
#include "run/lead/lead.h"

enum { PARTING_MS = 5000, PARTING_STEP_MS = 20 };

static void take_processors(struct seen_node *seen, const json_t *node) {
  const char *boot = json_string_value(json_object_get(node, "boot"));
  const char *cpus = json_string_value(json_object_get(node, "cpus"));
  seen->processors = (uint32_t)json_integer_value(json_object_get(node, "processors"));
  snprintf(seen->boot, sizeof seen->boot, "%s", boot ? boot : "");
  snprintf(seen->cpus, sizeof seen->cpus, "%s", cpus ? cpus : "");
}

// Adds the ranks of the current phase whose processes this node had started and which have not ended.
static void add_ranks_of(const struct node *node, uint32_t number, struct text *text) {
  const struct plan_ranks *ranks = &node->plan->ranks;
  const uint32_t phase = node->phase.current;
  uint32_t count = 0;
  for (uint32_t i = 0; phase < node->plan->num_phases && i < ranks->count; i++) {
    const uint32_t first = lead_launch_phase(node, phase, ranks->rank[i]);
    const struct launch *launch = node_launch_of(node, first, ranks->rank[i]);
    if (launch->claimed && launch->node == number && !lead_seat(node, first, ranks->rank[i])->ended)
      text_add(text, "%s%d", count++ ? ", " : "", ranks->rank[i]);
  }
}

static int lost_node(const struct node *node, uint32_t number) {
  struct text ranks = {0}, when = {0};
  if (node->phase.begun) {
    add_ranks_of(node, number, &ranks);
    text_add(&when, " in phase %u", node->phase.current);
  }
  const char *host = node->lead->nodes[number].host;
  int err =
      fail(WEFT_ERR_PEER_LOST, "agent %u on %s has ended or is unreachable%s%s%s", number, host,
           when.data ? when.data : "", ranks.data ? ", and so are its ranks: " : "", ranks.data ? ranks.data : "");
  text_free(&ranks);
  text_free(&when);
  return err;
}

int lead_take_node(struct node *node, const struct run_change *change, const char *id) {
  struct lead *lead = node->lead;
  char *end;
  unsigned long number = strtoul(id, &end, 10);
  if (end == id || *end || number >= lead->num_nodes)
    return 0; // somebody else's key
  struct seen_node *seen = &lead->nodes[number];
  if (change->kind == WEFT_STORE_EVENT_DELETE) {
    seen->here = false;
    if (node_restore_is_on(node))
      return 0;
    if (node->config.agents == RUN_AGENTS_ELASTIC && number > 0)
      return lead_lose_node(node, (uint32_t)number, false);
    return lead->state == LEAD_ENDS ? 0 : lost_node(node, (uint32_t)number);
  }
  const char *host = json_string_value(json_object_get(change->json, "host"));
  if (json_is_true(json_object_get(change->json, "leaving")))
    return node->config.agents == RUN_AGENTS_ELASTIC && number > 0 ? lead_lose_node(node, (uint32_t)number, true) : 0;
  if (seen->gone)
    progress_say(&node->progress, "agent %lu has replaced one that is gone", number);
  seen->here = true;
  seen->leaves = seen->gone = false;
  seen->error[0] = '\0';
  seen->slots = (uint32_t)json_integer_value(json_object_get(change->json, "slots"));
  snprintf(seen->host, sizeof seen->host, "%s", host ? host : "?");
  printable_line(seen->host);
  take_processors(seen, change->json);
  json_decref(seen->gpus);
  seen->gpus = json_incref(json_object_get(change->json, "gpus"));
  seen->shares_gpus = json_is_true(json_object_get(change->json, "share_gpus"));
  return 0;
}

// The first GPU that both nodes use; NULL: there is none.
static const char *common_gpu(const struct seen_node *a, const struct seen_node *b) {
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

// Each node of a host takes the GPUs that it sees from the first on, so two nodes may have taken the same GPU.
int lead_check_gpus(const struct lead *lead) {
  for (uint32_t i = 0; i < lead->num_nodes; i++) {
    for (uint32_t k = i + 1; k < lead->num_nodes; k++) {
      const struct seen_node *a = &lead->nodes[i], *b = &lead->nodes[k];
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

uint32_t lead_slots(const struct lead *lead) {
  uint32_t slots = 0;
  for (uint32_t i = 0; i < lead->num_nodes; i++)
    slots += lead->nodes[i].here ? lead->nodes[i].slots : 0;
  return slots;
}

// Adds the option for an existing store, with addresses that others can use.
static void describe_far_store(const struct node *node, struct text *text) {
  char *url = run_url_for_others(node->store.endpoints);
  text_add(text, "--store %s", url ? url : node->store.endpoints);
  free(url);
}

// Adds the option for the embedded store, with an address of this host, or with its name if it has no address.
static void describe_own_store(const struct node *node, const char *port, struct text *text) {
  char own[64];
  const char *host = run_host_address(own, sizeof own) ? own : node->host;
  text_add(text, strchr(host, ':') ? "--rank-server [%s]%s" : "--rank-server %s%s", host, port);
}

// Adds the options with which the other nodes find the store.
static void describe_store(const struct node *node, struct text *text) {
  const char *scheme = strstr(node->store.endpoints, "://"), *host = scheme ? scheme + 3 : node->store.endpoints;
  bool all = strncmp(host, "0.0.0.0:", 8) == 0 || strncmp(host, "[::]:", 5) == 0;
  if (!node->store.server)
    describe_far_store(node, text);
  else if (all)
    describe_own_store(node, strrchr(host, ':'), text);
  else
    text_add(text, "--rank-server %s", host);
  if (strcmp(node->job, RUN_DEFAULT_JOB) != 0)
    text_add(text, " --job %s", node->job);
}

enum { PHASES_NAMED = 6 };

// "phase 1 needs 4 more process slots, phase 2 needs 2 more"; returns the largest of these numbers.
static uint32_t describe_needs(const struct node *node, struct text *text) {
  uint32_t here = node->slots, most = 0, named = 0;
  for (uint32_t p = 0; p < node->plan->num_phases; p++) {
    uint32_t need = node->plan->phases[p].num_processes, more = need > here ? need - here : 0;
    most = more > most ? more : most;
    if (more && named < PHASES_NAMED)
      text_add(text, "%sphase %u needs %u more%s%s", named ? ", " : "", p, more, named ? "" : " process slot",
               named ? "" : text_s(more));
    named += more > 0;
  }
  if (named > PHASES_NAMED)
    text_add(text, ", and so on for %u phases", named);
  return most;
}

// Where the other nodes can run. An embedded store at loopback can be reached only from this host.
static const char *where_others_start(const struct node *node) {
  return node->store.server && run_url_is_loopback(node->store.endpoints)
             ? "on this host (--listen ADDRESS admits agents of other hosts)"
             : "here or on another host";
}

// Prints the command that starts the other nodes, as lines that stay and can be pasted. If the token was made for this
// run, the command contains it; in this case standard error is a terminal.
static void show_command(struct node *node, const char *which, const char *options) {
  struct text store = {0};
  bool same = node->store.server && !node->made_token[0];
  describe_store(node, &store);
  progress_hide(&node->progress);
  fprintf(stderr, "%s, %s%s, by:\n", which, where_others_start(node), same ? ", with the same token" : "");
  if (node->made_token[0])
    fprintf(stderr, "WEFT_TOKEN=%s ", node->made_token);
  fprintf(stderr, "weft elastic %s%s\n", store.data ? store.data : "", options);
  text_free(&store);
}

void lead_show_needs(struct node *node) {
  if (node->lead->showed_command || !node->progress.on)
    return;
  node->lead->showed_command = true;
  struct text needs = {0}, which = {0};
  char options[40];
  uint32_t most = describe_needs(node, &needs);
  text_add(&which, "%s than the %u of this agent. Start another agent", needs.data ? needs.data : "", node->slots);
  snprintf(options, sizeof options, " --num-processes %u", most);
  show_command(node, which.data ? which.data : "", options);
  text_free(&which);
  text_free(&needs);
}

void lead_show_missing(struct node *node, uint32_t slots) {
  char options[40];
  if (!node->progress.on)
    return;
  snprintf(options, sizeof options, " --num-processes %u", slots);
  show_command(node, "Start another agent", options);
}

void lead_show_waiting(struct node *node, uint32_t here) {
  struct lead *lead = node->lead;
  if (!lead->showed_command && node->progress.on)
    show_command(node, "Start each of the other agents", "");
  lead->showed_command = true;
  progress_show(&node->progress, true, "waiting for agents: %u of %u here", here, node->config.num_agents);
}

void lead_forget_nodes(struct node *node) {
  for (uint32_t i = 0; i < node->lead->num_nodes; i++)
    node->lead->nodes[i].here = false;
}

static bool is_missed(const struct seen_node *seen, uint32_t number) {
  bool came = number == 0 || seen->host[0];
  return came && !seen->here && !seen->gone && !seen->leaves;
}

int lead_lose_missing(struct node *node) {
  struct lead *lead = node->lead;
  int err = 0;
  for (uint32_t i = 1; i < lead->num_nodes && !err; i++)
    if (is_missed(&lead->nodes[i], i))
      err = lead_lose_node(node, i, false);
  return err;
}

uint32_t lead_missing_nodes(const struct node *node, struct text *text) {
  const struct lead *lead = node->lead;
  uint32_t missing = 0;
  for (uint32_t i = 0; lead && i < lead->num_nodes; i++)
    if (is_missed(&lead->nodes[i], i))
      text_add(text, "%sagent %u on %s", missing++ ? ", " : "", i, i ? lead->nodes[i].host : node->host);
  return missing;
}

void lead_dismiss(struct node *node, int status, const char *error) {
  char key[RUN_KEY_SIZE], nodes[RUN_KEY_SIZE];
  if (node_places(node) <= 1)
    return;
  run_key(key, &node->keys, "end");
  run_key(nodes, &node->keys, "agent/");
  run_reporter_put(node->reporter, key, json_pack("{s:i, s:s}", "status", status, "error", error));
  uint64_t deadline = clock_deadline_ms(PARTING_MS);
  struct weft_store_list *list;
  for (size_t others = 1; others > 0 && !clock_passed(deadline);) {
    if (!weft_store_range(node->store.client, nodes, true, 0, &list)) {
      others = list->count > 0 ? list->count - 1 : 0;
      weft_store_list_free(list);
    }
    if (others > 0 && node_pause(node, PARTING_STEP_MS))
      return;
  }
}
