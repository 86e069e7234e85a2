// The option --follow of weft slurm run and weft slurm status.
#include "cli/slurm/slurm.h"

#include <stdio.h>

#include "base/signal/stop.h"
#include "slurm/folder/follow.h"

int cli_slurm_follow(const struct cli_call *call, const struct slurm_record *record) {
  size_t bad = 0;
  char name[64];
  snprintf(name, sizeof name, "weft %s", call->command->name);
  stop_watch(name);
  int err = slurm_follow(record, stdout, &bad);
  if (err && stop_came()) {
    fprintf(stderr, "%s: %s: the jobs keep running; 'weft slurm status %s --follow' shows them again\n", name,
            stop_name(), record->directory);
    return 128 + stop_came();
  }
  if (err)
    return cli_command_failed(call, err);
  if (bad > 0)
    printf("%zu of %zu runs did not pass: 'weft slurm report %s' says which ranks\n", bad, record->num_runs,
           record->directory);
  else
    printf("%zu run%s passed: 'weft slurm report %s' has the figures\n", record->num_runs,
           record->num_runs == 1 ? "" : "s", record->directory);
  return bad > 0;
}
