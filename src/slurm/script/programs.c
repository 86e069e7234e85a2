// Writes how each program is started on the nodes: the step of the first node starts the lead, the steps of the others
// start followers.
#include <string.h>

#include "slurm/script/parts.h"
#include "slurm/script/quote.h"

#define LATE "  late \"$i\" || break\n"

static bool is_late(const struct slurm_run *run) {
  return run->program == SLURM_ELASTIC && run->followers == SLURM_FOLLOWERS_LATE && run->node_first_phase;
}

// Passes options that each agent needs itself to all agents; the lead alone gets the sizes.
static void add_agents_own(struct text *text, const struct slurm_run *run) {
  for (size_t i = 0; i < run->args.count; i++)
    if (strcmp(run->args.list[i].name, "share-gpus") == 0)
      text_add(text, " --share-gpus");
}

static void write_port(struct text *text, const struct slurm_run *run) {
  if (run->store_port)
    text_add(text, "port=%u\n", run->store_port);
  else
    text_add(text, "# Two jobs of one node have different ports.\n"
                   "port=$((10000 + SLURM_JOB_ID %% 20000))\n");
  text_add(text, "# Where the node has IPv6, this is all its addresses of both kinds.\n"
                 "any=0.0.0.0\n"
                 "grep -qs . /proc/net/if_inet6 && any=::\n");
}

// The name under which the processes of a run meet in a store.
static const char *meeting_name(const struct slurm_run *run) {
  return run->store ? "$name" : "slurm-$SLURM_JOB_ID"; // a store of the run's own has no other names
}

static void write_name(struct text *text) {
  text_add(text, "# Another run of this job must not find what a killed run has left in the store.\n"
                 "name=slurm-$SLURM_JOB_ID-$$\n");
}

static void write_processes(struct text *text, const struct slurm_run *run) {
  text_add(text, "processes=(");
  for (uint32_t i = 0; i < run->resources.num_nodes; i++)
    text_add(text, "%s%u", i ? " " : "", run->node_processes[i]);
  text_add(text, ")\n");
}

static void write_token(struct text *text) {
  text_add(text, "# Agents show each other a token, which is on no command line.\n"
                 "WEFT_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')\n"
                 "export WEFT_TOKEN\n");
}

// Nodes start in the order in which the plan needs them; nodes that it never needs do not start.
static void write_late(struct text *text, const struct slurm_run *run) {
  text_add(text, "# In which phase each node's slots are first needed.\nfirst_phases=(");
  for (uint32_t i = 0; i < run->resources.num_nodes; i++) {
    uint32_t phase = run->node_first_phase[i];
    text_add(text, phase == UINT32_MAX ? "%snever" : "%s%u", i ? " " : "", phase);
  }
  text_add(text, ")\n"
                 "# A node starts when the phase before that one has begun.\n"
                 "late() {\n"
                 "  [ \"${first_phases[$1]}\" = never ] && return 1\n"
                 "  [ \"${first_phases[$1]}\" = 0 ] && return 0\n  ");
  slurm_quote_word(text, run->command.list[0]);
  text_add(text, " slurm await --run-dir \"$attempt\" --phase $((first_phases[$1] - 1)) --process \"${steps[0]}\" &\n"
                 "  await \"$!\"\n"
                 "}\n");
}

// Writes the options behind the program that give a follower the lead's address, which is the address of the node on
// which this script runs. Slurm provides it within each step.
static void write_follower(struct text *text, const struct slurm_run *run, const char *option, const char *more) {
  text_add(text, "# Within a step Slurm says where this script runs, which is where the lead is.\n"
                 "for ((i = 1; i < ${#nodes[@]}; i++)); do\n");
  text_add(text, "%s", is_late(run) ? LATE : "");
  text_add(text, "  # shellcheck disable=SC2016\n"
                 "  step \"${nodes[i]}\" sh -c 'exec \"$@\" --");
  text_add(text, "%s' weft \\\n   ", option);
  slurm_part_program(text, run);
  text_add(text, "%s\ndone\n", more);
}

void slurm_part_elastic(struct text *text, const struct slurm_run *run) {
  const uint32_t nodes = run->resources.num_nodes;
  struct text more = {0};
  write_processes(text, run);
  if (run->store) {
    write_name(text);
  } else {
    write_port(text, run);
    write_token(text);
  }
  text_add(text, "\n# The agent of the first node leads: it has the plan%s.\nstep \"${nodes[0]}\"",
           run->store ? "" : " and the store");
  slurm_part_program(text, run);
  text_add(text, " --plan \"$directory/" SLURM_FILE_PLAN "\" \\\n"
                 "  --num-processes \"${processes[0]}\" ");
  if (!is_late(run)) // else the other nodes start when a phase needs them
    text_add(text, "--num-agents %u ", nodes);
  text_add(text, "--startup-timeout %u \\\n  --job \"%s\" --run-dir \"$attempt\" ", run->startup_timeout_s,
           meeting_name(run));
  if (run->store) {
    text_add(text, "--store ");
    slurm_quote_word(text, run->store);
  } else {
    text_add(text, "--listen \"$any\" --store-port \"$port\"");
  }
  slurm_part_options(text, run);
  text_add(text, "\n");
  if (nodes < 2)
    return;
  if (is_late(run))
    write_late(text, run);
  text_add(&more,
           " --num-processes \"${processes[i]}\" \\\n"
           "    --startup-timeout %u --job \"%s\" --run-dir \"$attempt/node-${nodes[i]}\"",
           run->startup_timeout_s, meeting_name(run));
  add_agents_own(&more, run);
  if (run->store) {
    text_add(text, "for ((i = 1; i < ${#nodes[@]}; i++)); do\n%s  step \"${nodes[i]}\"", is_late(run) ? LATE : "");
    slurm_part_program(text, run);
    text_add(text, "%s --store ", more.data);
    slurm_quote_word(text, run->store);
    text_add(text, "\ndone\n");
  } else {
    text_add(text, "export port\n");
    write_follower(text, run, "rank-server \"$SLURM_LAUNCH_NODE_IPADDR\" --store-port \"$port\"",
                   more.data ? more.data : "");
  }
  text->failed = text->failed || more.failed;
  text_free(&more);
}

void slurm_part_transfer(struct text *text, const struct slurm_run *run) {
  const uint32_t nodes = run->resources.num_nodes;
  struct text more = {0};
  write_processes(text, run);
  text_add(text, "mkdir -p \"$attempt\"\n");
  if (run->store) {
    write_name(text);
  } else {
    write_port(text, run);
    write_token(text);
  }
  text_add(&more, " --startup-timeout %u --benchmark-group \"%s\"", run->startup_timeout_s, meeting_name(run));
  if (run->store) {
    text_add(&more, " --store ");
    slurm_quote_word(&more, run->store);
  }
  slurm_part_options(&more, run);
  text_add(text, "\n# The worker of the first node %s and writes the results.\nstep \"${nodes[0]}\"",
           run->store ? "leads" : "has the store");
  slurm_part_program(text, run);
  text_add(text, " --local-workers \"${processes[0]}\" \\\n  --json \"$attempt/" SLURM_FILE_RESULTS "\"%s%s\n",
           run->store ? "" : " --listen \"$any\" --store-port \"$port\"", more.data ? more.data : "");
  text_add(text, "%s", run->store || nodes < 2 ? "" : "export port\n");
  if (nodes > 1 && !run->store) {
    struct text all = {0};
    text_add(&all, " --local-workers \"${processes[i]}\" \\\n   %s", more.data ? more.data : "");
    write_follower(text, run, "rank-server \"$SLURM_LAUNCH_NODE_IPADDR\" --store-port \"$port\"",
                   all.data ? all.data : "");
    text->failed = text->failed || all.failed;
    text_free(&all);
  } else if (nodes > 1) {
    text_add(text, "for ((i = 1; i < ${#nodes[@]}; i++)); do\n  step \"${nodes[i]}\"");
    slurm_part_program(text, run);
    text_add(text, " --local-workers \"${processes[i]}\" \\\n   %s\ndone\n", more.data ? more.data : "");
  }
  text->failed = text->failed || more.failed;
  text_free(&more);
}
