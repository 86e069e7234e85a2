// Writes how the program that a test names is started, and how it is judged: it has no rendezvous, expects that
// somebody starts its processes when a phase needs them, and may end with 0 after a failure.
#include "slurm/script/parts.h"
#include "slurm/script/quote.h"

// CloudAI takes a log with one of these texts for the log of a failure.
static const char *const fatal[] = {
    "Traceback (most recent call last):",   "recvValueWithTimeout failed",
    "Failed to prepare remote memory view", "srun: error:",
    "no plan phases were found for rank",
};
enum { FATAL = sizeof fatal / sizeof *fatal };

// Logs are appended to, so a script looks only at the lines behind those of earlier attempts.
static void write_lines_before(struct text *text) {
  text_add(text, "# How many lines earlier attempts have left in each node's log.\n"
                 "lines=()\n"
                 "for node in \"${nodes[@]}\"; do\n"
                 "  lines+=(\"$(grep -cs '' \"$directory/node-$node.log\")\")\n"
                 "done\n"
                 "rm -f \"$directory/" SLURM_FILE_FATAL "\"\n\n");
}

void slurm_part_fatal(struct text *text) {
  text_add(text,
           "\n# The program may end with 0 although it failed; a log with one of these texts is that of a failure.\n"
           "for i in \"${!nodes[@]}\"; do\n"
           "  found=$(tail -n +\"$((lines[i] + 1))\" \"$directory/node-${nodes[i]}.log\" 2> /dev/null |\n"
           "    grep -aFnm 1");
  for (size_t i = 0; i < FATAL; i++) {
    text_add(text, "%s -e ", i ? " \\\n     " : "");
    slurm_quote_word(text, fatal[i]);
  }
  text_add(text, ") || continue\n"
                 "  echo \"node-${nodes[i]}.log:$((lines[i] + ${found%%%%:*})): ${found#*:}\" |\n"
                 "    tee -a \"$directory/" SLURM_FILE_FATAL "\" >&2\n"
                 "done\n"
                 "[ \"$status\" = 0 ] && [ -s \"$directory/" SLURM_FILE_FATAL "\" ] && status=1\n");
}

// The others connect to the lead's port, so it must be open before they start. A lead that has ended never opens it.
static void write_wait_for_port(struct text *text, const struct slurm_run *run) {
  text_add(text,
           "# The program needs its lead's port open before the others connect.\n"
           "port=%u\n"
           "deadline=$((SECONDS + %u))\n"
           "until (: < \"/dev/tcp/127.0.0.1/$port\") 2> /dev/null; do\n"
           "  if ! kill -0 \"${steps[0]}\" 2> /dev/null; then\n"
           "    echo \"the lead ended before its port $port opened: no others start\" |\n"
           "      tee -a \"$directory/" SLURM_FILE_FATAL "\" >&2\n"
           "    launches=()\n"
           "    break\n"
           "  fi\n"
           "  [ -z \"$signal\" ] || break\n"
           "  [ \"$SECONDS\" -lt \"$deadline\" ] || { echo \"port $port of the lead did not open within %u s\" >&2; "
           "break; }\n"
           "  sleep 0.2\n"
           "done\n",
           run->store_port ? run->store_port : 9999, run->startup_timeout_s, run->startup_timeout_s);
}

static bool has_later_phases(const struct slurm_run *run) {
  return run->num_launches && run->launches[run->num_launches - 1].phase > 0;
}

static void write_wait_for_phase(struct text *text) {
  text_add(text, "# Waits for the end of a phase, which the program reports in the log of the first node.\n"
                 "phase_ended() {\n"
                 "  local alive\n"
                 "  while :; do\n"
                 "    kill -0 \"${steps[0]}\" 2> /dev/null\n"
                 "    alive=$?\n"
                 "    tail -n +\"$((lines[0] + 1))\" \"$directory/node-${nodes[0]}.log\" 2> /dev/null |\n"
                 "      grep -aqE -e \"-> end phase $1([^0-9]|\\$)\" && return 0\n"
                 "    [ \"$alive\" = 0 ] && [ -z \"$signal\" ] || return 1\n"
                 "    sleep 0.2\n"
                 "  done\n"
                 "}\n");
}

static void write_launches(struct text *text, const struct slurm_run *run) {
  text_add(text, "# What starts after the lead: in which phase, on which node, and how many processes.\nlaunches=(");
  for (size_t i = 1; i < run->num_launches; i++)
    text_add(text, "%s\"%u %u %u\"", i > 1 ? " " : "", run->launches[i].phase, run->launches[i].node,
             run->launches[i].processes);
  text_add(text, ")\n");
  if (!run->plan)
    text_add(text, "# The plan is in the image, so nothing here knows its phases: all processes start at once.\n");
}

// Writes the loop that starts all processes but those of the lead. `more`: the options that all of them have.
static void write_others(struct text *text, const struct slurm_run *run, const char *more) {
  bool later = has_later_phases(run);
  text_add(text,
           "%s"
           "for launch in \"${launches[@]}\"; do\n"
           "  read -r %s i count <<< \"$launch\"\n",
           later ? "phase=0\n" : "", later ? "next" : "_");
  if (later)
    text_add(text, "  if [ \"$next\" != \"$phase\" ] && ! phase_ended \"$((next - 1))\"; then\n"
                   "    echo \"phase $((next - 1)) did not end: the processes of phase $next do not start\" |\n"
                   "      tee -a \"$directory/" SLURM_FILE_FATAL "\" >&2\n"
                   "    break\n"
                   "  fi\n"
                   "  phase=$next\n");
  text_add(text, "  # Within a step Slurm says where this script runs, which is where the lead is.\n"
                 "  # shellcheck disable=SC2016\n"
                 "  step \"${nodes[i]}\" sh -c 'exec \"$@\" --tcp-server \"$SLURM_LAUNCH_NODE_IPADDR\"' weft \\\n   ");
  slurm_part_program(text, run);
  text_add(text, " --num-processes \"$count\"%s\ndone\n", more);
}

static void write_bench(struct text *text, const struct slurm_run *run) {
  text_add(text, "for node in \"${nodes[@]}\"; do\n  step \"$node\"");
  slurm_part_program(text, run);
  text_add(text, " --etcd_endpoints ");
  slurm_quote_word(text, run->store ? run->store : "");
  slurm_part_options(text, run);
  text_add(text, "\ndone\n");
}

void slurm_part_as_written(struct text *text, const struct slurm_run *run) {
  struct text more = {0};
  write_lines_before(text);
  if (!run->plan && !run->plan_source) {
    write_bench(text, run);
    return;
  }
  text_add(&more, " --plan ");
  if (run->plan)
    text_add(&more, "\"$directory/" SLURM_FILE_PLAN "\"");
  else
    slurm_quote_word(&more, run->plan_source);
  slurm_part_options(&more, run);
  if (run->num_launches > 1)
    write_launches(text, run);
  if (has_later_phases(run))
    write_wait_for_phase(text);
  text_add(text, "step \"${nodes[0]}\"");
  slurm_part_program(text, run);
  text_add(text, " --num-processes %u%s\n", run->num_launches ? run->launches[0].processes : 1,
           more.data ? more.data : "");
  if (run->num_launches > 1) {
    write_wait_for_port(text, run);
    write_others(text, run, more.data ? more.data : "");
  }
  text->failed = text->failed || more.failed;
  text_free(&more);
}
