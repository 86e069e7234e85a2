// weft: the tool. It has the list of commands, finds the one that is called and runs it.
#include "base/fail.h"
#include "cli/command/help.h"
#include "cli/command/variables.h"
#include "cli/commands/commands.h"
#include "cli/process/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

// Every command, in the order of the help, one a line.
// clang-format off
static const struct cli_command *const commands[] = {
  &cli_elastic,
  &cli_p2p,
  &cli_bench_transfer,
  &cli_bench_nixlbench,
  &cli_bench_ep,
  &cli_bench_traffic,
  &cli_bench_kv,
  &cli_bench_limits,
  &cli_slurm_verify,
  &cli_slurm_dry_run,
  &cli_slurm_run,
  &cli_slurm_status,
  &cli_slurm_report,
  &cli_slurm_cancel,
  &cli_compare,
  &cli_plan,
  &cli_report,
  &cli_serve,
  &cli_info,
  &cli_doctor,
  &cli_env,
  &cli_help,
  &cli_rank,
  &cli_slurm_await,
  &cli_slurm_verify_configs,
  &cli_slurm_generate_report,
  &cli_slurm_list,
  &cli_slurm_install,
  &cli_slurm_uninstall,
  NULL,
};
// clang-format on

static bool is(const char *text, const char *name, const char *letter) {
  return strcmp(text, name) == 0 || strcmp(text, letter) == 0;
}

// Opens standard descriptors that are closed. Otherwise the first socket or window would get such a number, and output
// would go there.
static void fill_standard_descriptors(void) {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO)
    fd = open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO)
    close(fd);
}

// weft --help [COMMAND]
static int help(int argc, char **argv) {
  int used;
  const struct cli_command *command = cli_command_find(commands, argc, argv, &used);
  if (argc == 1 && !command && cli_command_help_family(commands, argv[0]))
    return 0;
  if (argc > 0 && !command)
    return cli_command_unknown(commands, argc, argv);
  if (command)
    cli_help_write_command(stdout, command);
  else
    cli_help_write_overview(stdout, commands);
  return 0;
}

static int run(int argc, char **argv) {
  int used;
  const struct cli_command *command = cli_command_find(commands, argc - 1, argv + 1, &used);
  // A rank has the environment of its agent, which has already printed the warnings.
  bool refused = !(command && command->hidden) && cli_variables_warn(commands, command);
  if (argc < 2) {
    cli_help_write_short(stderr, commands);
    return 2;
  }
  if (is(argv[1], "--version", "-V") || strcmp(argv[1], "version") == 0) {
    printf("weft %s\n", weft_version());
    return 0;
  }
  if (is(argv[1], "--help", "-h")) {
    return help(argc - 2, argv + 2);
  }
  if (argv[1][0] == '-') {
    fprintf(stderr, "weft: unknown option %s; want a command first, then its options\nTry 'weft --help'.\n", argv[1]);
    return 2;
  }
  if (!command && argc > 2 && is(argv[2], "--help", "-h") && cli_command_help_family(commands, argv[1]))
    return 0;
  if (!command)
    return cli_command_unknown(commands, argc - 1, argv + 1);
  if (refused && !cli_options_want_help(argc - 1, argv + 1)) {
    fprintf(stderr, "Try 'weft %s --help'.\n", command->name);
    if (command->where_it_fails)
      puts(command->where_it_fails);
    return 2;
  }
  return command->run(&(struct cli_call){command, commands, argc - used, argv + used});
}

static void take_secrets(void) {
  for (size_t c = 0; commands[c]; c++) {
    const struct cli_option_table *table = &commands[c]->options;
    for (size_t i = 0; i < table->count; i++)
      if (table->rows[i].secret && table->rows[i].variable)
        cli_secrets_take(table->rows[i].variable);
  }
}

// The output is the result: if it was lost (disk full, closed pipe), the command has failed.
static int check_output(void) {
  bool failed = ferror(stdout);
  clearerr(stdout);
  errno = 0;
  if (fflush(stdout) == 0 && !failed)
    return 0;
  // If an earlier write failed, there may be nothing left to flush: then this write fails for the same reason.
  if (errno == 0 && (putchar('\n') == EOF || fflush(stdout) == 0))
    errno = EIO;
  fail_errno(errno, "cannot write to standard output");
  fprintf(stderr, "weft: %s\n", weft_last_error());
  return 3;
}

int main(int argc, char **argv) {
  take_secrets(); // first, because until then other processes can read them in the environment
  fill_standard_descriptors();
  // Keeps hwloc from printing errors on standard error, for instance in a container without /sys.
  setenv("HWLOC_HIDE_ERRORS", "2", 0);
  setlocale(LC_CTYPE, "");  // which characters the terminal shows; numbers stay as in C
  signal(SIGXFSZ, SIG_IGN); // a write beyond the limit of file sizes fails then, and says so
  int status = run(argc, argv);
  return status ? status : check_output();
}
