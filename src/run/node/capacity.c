// The number of ranks for which this node has room, and the memory in which they work.
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "run/node/node.h"

void node_expect_others(struct node *node) {
  struct run_config *config = &node->config;
  if (config->num_agents || !node->plan)
    return;
  uint32_t slots = config->num_processes, needed = node->plan->num_processes;
  config->others_come = slots > 0 && slots < needed;
  config->num_agents = config->others_come ? 1 + needed - slots : 1;
}

int node_check_slots(const struct node *node) {
  const struct run_config *config = &node->config;
  bool others = config->num_agents > 1 || config->agents == RUN_AGENTS_ELASTIC;
  return others || config->num_processes == 0 ? 0 : plan_check_slots(node->plan, config->num_processes);
}

uint32_t node_places(const struct node *node) {
  uint32_t nodes = node->config.num_agents ? node->config.num_agents : 1;
  return node->config.agents == RUN_AGENTS_ELASTIC ? nodes + node->plan->num_processes : nodes;
}

// The number of ranks that may be live at once on this node. node_choose_memory() takes fewer if one of several nodes
// without --num-processes has fewer GPUs.
static uint32_t num_live(const struct node *node) {
  uint32_t slots = node->config.num_processes, most = node->plan->num_processes;
  return slots && slots < most ? slots : most;
}

int node_choose_memory(struct node *node) {
  struct run_config *config = &node->config;
  bool was_auto = config->memory == WEFT_EP_MEMORY_AUTO;
  if (was_auto && node->probe.no_gpus[0])
    config->memory = WEFT_EP_MEMORY_HOST;
  uint32_t most = num_live(node), least = config->num_agents > 1 && config->num_processes == 0 ? 1 : most;
  int err = run_gpus_choose(&node->gpus, config, &(struct run_gpus_need){node->plan->num_processes, least, most});
  if (err)
    return err;
  if (was_auto && node->probe.no_gpus[0])
    snprintf(node->gpus.why, sizeof node->gpus.why, "%s", node->probe.no_gpus);
  if (config->memory == WEFT_EP_MEMORY_CUDA)
    config->num_processes = config->share_gpus ? most : node->gpus.count;
  if (was_auto && node->gpus.why[0] && !config->quiet)
    fprintf(stderr, "weft elastic: --memory auto: host memory, because %s\n", node->gpus.why);
  return 0;
}

int node_make_room(struct node *node) {
  node->slots = node->config.num_processes ? node->config.num_processes : node->plan->num_processes;
  node->children = calloc(node->slots, sizeof *node->children);
  node->launches = calloc((size_t)node->plan->num_phases * node->plan->ranks.count, sizeof *node->launches);
  return node->children && node->launches ? 0 : fail(WEFT_ERR_NOMEM, "no memory for %u ranks", node->slots);
}
