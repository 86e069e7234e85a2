// weft env: prints environment variables that configure other libraries for this host and rank.
#include "base/fail.h"
#include "base/printable.h"
#include "base/text/wrap.h"
#include "cli/commands/commands.h"
#include "cli/commands/env_gpu.h"
#include "cli/process/terminal.h"
#include "doctor/host/host.h"
#include "topology/served/exports.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NO_RANK = 1 << 20 };

struct options {
  uint32_t rank;
  bool shell, json;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

// clang-format off
static const struct cli_option rows[] = {
  {.name = "rank", .type = OPTION_UINT, .metavar = "N", .min = 0, .max = NO_RANK - 1,
   .preset_note = "only settings that fit all ranks of the host", FIELD(rank),
   .help = "for process N of this host, counted from 0 (SLURM_LOCALID, OMPI_COMM_WORLD_LOCAL_RANK): also print its "
   "own settings, such as the NIC nearest to its GPU"},
  {.name = "shell", .type = OPTION_FLAG, FIELD(shell),
   .help = "print lines for a POSIX shell, with comments (the default); if the command fails, it prints a line that "
   "makes the shell fail too"},
  {.name = "json", .type = OPTION_FLAG, FIELD(json), .help = "print JSON"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"eval \"$(weft env --rank $SLURM_LOCALID)\"", "in the script of a job, before its program"},
    {"weft env", "the settings that fit all ranks of this host, each with its reason"},
    {"WEFT_NICS=^mlx5_4 weft env --rank 3", "the settings of rank 3, without the NIC mlx5_4"},
    {NULL, NULL},
};

struct env {
  struct topology_choice *choice;
  struct topology_exports_facts facts;
  struct topology_export exports[TOPOLOGY_EXPORTS];
  size_t count;
  char how[CLI_ENV_WHY]; // the GPU was found
};

static int gather(struct env *env, uint32_t rank) {
  int err = topology_choose(&env->choice, NULL);
  if (err)
    return err;
  struct doctor_kernel_facts kernel = {0};
  doctor_gather_kernel(&kernel, "");
  env->facts = (struct topology_exports_facts){.choice = env->choice, .ranked = rank != NO_RANK, .gpu = -1};
  env->facts.cma_refused = kernel.read_parent != 0;
  topology_default_route("", env->facts.interface);
  if (env->facts.ranked)
    env->facts.gpu = cli_env_gpu(env->choice, rank, env->how);
  env->count = topology_exports(&env->facts, env->exports);
  return 0;
}

// Prints the value in single quotes unless every character is harmless, since the name of an interface may be any text.
static void print_value(const char *value) {
  bool harmless = *value != '\0';
  for (const char *at = value; *at; at++)
    harmless &= isalnum((unsigned char)*at) || strchr("_:,.+-@/", *at);
  if (harmless) {
    fputs(value, stdout);
    return;
  }
  putchar('\'');
  for (const char *at = value; *at; at++)
    fputs(*at == '\'' ? "'\\''" : (const char[]){*at, '\0'}, stdout);
  putchar('\'');
}

// Prints the text as comment lines; a newline or another control character in it becomes '?'.
static void print_comment(const char *text) {
  char line[2 * CLI_ENV_WHY];
  snprintf(line, sizeof line, "%s", text);
  printable_line(line);
  const char *rest = line, *mark = "# ";
  do {
    size_t length = wrap_length(rest, CLI_TERMINAL_WIDTH - strlen("#   "));
    printf("%s%.*s\n", mark, (int)length, rest);
    rest = wrap_after(rest, length);
    mark = "#   ";
  } while (*rest);
}

static void print_shell(const struct env *env, uint32_t rank) {
  char line[2 * CLI_ENV_WHY], option[32] = "";
  if (env->facts.ranked)
    snprintf(option, sizeof option, " --rank %u", rank);
  snprintf(line, sizeof line, "eval \"$(weft env%s)\" sets these in a POSIX shell; here they are only shown", option);
  print_comment(line);
  if (env->facts.gpu >= 0) {
    const struct topology_gpu *gpu = &env->choice->gpus[env->facts.gpu];
    snprintf(line, sizeof line, "rank %u: GPU %d at %s (%s)%s%s", rank, env->facts.gpu, gpu->address, env->how,
             *gpu->cpus ? "; near it are the processors " : "", gpu->cpus);
  } else if (env->facts.ranked) {
    snprintf(line, sizeof line, "rank %u: no GPU of its own: %s", rank, env->how);
  } else {
    snprintf(line, sizeof line, "for all ranks of this host");
  }
  print_comment(line);
  for (size_t i = 0; i < env->count; i++) {
    const struct topology_export *at = &env->exports[i];
    snprintf(line, sizeof line, "%s%s: %s", at->set ? "" : "without ", at->name, at->why);
    print_comment(line);
    if (!at->set)
      continue;
    printf("export %s=", at->name);
    print_value(at->value);
    putchar('\n');
  }
}

static json_t *describe_gpu(const struct env *env) {
  if (env->facts.gpu < 0)
    return json_null();
  const struct topology_gpu *gpu = &env->choice->gpus[env->facts.gpu];
  return json_pack("{s:i, s:s, s:s, s:s}", "index", env->facts.gpu, "address", gpu->address, "cpus", gpu->cpus, "how",
                   env->how);
}

static int print_json(const struct env *env, uint32_t rank) {
  json_t *exports = json_array();
  for (size_t i = 0; i < env->count; i++) {
    const struct topology_export *at = &env->exports[i];
    json_array_append_new(
        exports, json_pack("{s:s, s:s?, s:s}", "name", at->name, "value", at->set ? at->value : NULL, "why", at->why));
  }
  json_t *out = json_pack("{s:o, s:o, s:o}", "rank", env->facts.ranked ? json_integer(rank) : json_null(), "gpu",
                          describe_gpu(env), "exports", exports);
  if (!out)
    return fail(WEFT_ERR_NOMEM, "no memory for the exports");
  json_dumpf(out, stdout, JSON_INDENT(2));
  putchar('\n');
  json_decref(out);
  return 0;
}

static int print(const struct options *options) {
  struct env env = {0};
  if (options->shell && options->json)
    return fail(WEFT_ERR_INVALID, "--shell and --json are both given: want one of them");
  int err = gather(&env, options->rank);
  if (!err && options->json)
    err = print_json(&env, options->rank);
  else if (!err)
    print_shell(&env, options->rank);
  topology_choice_free(env.choice);
  return err;
}

static int finish_for_shell(int status, bool json) {
  if (status && !json) // JSON is not for eval
    puts(cli_env.where_it_fails);
  return status;
}

static int run(const struct cli_call *call) {
  struct options options = {.rank = NO_RANK};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return finish_for_shell(status, options.json);
  int err = print(&options);
  return err ? finish_for_shell(cli_command_failed(call, err), options.json) : 0;
}

const struct cli_command cli_env = {
    .name = "env",
    .summary = "print variables for UCX, NCCL, NVSHMEM, libfabric and Gloo",
    .description =
        "Prints the exports that make other libraries use the NICs that Weft has chosen for this host (see 'weft info "
        "--topology'), and the network interface that leads to other hosts, each with its reason. Nothing is guessed: "
        "if nothing is known about a variable, a comment says so instead. CUDA_VISIBLE_DEVICES is not changed.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .where_it_fails = "false # weft env failed", // eval "" succeeds, and a script would go on without the variables
    .run = run,
};
