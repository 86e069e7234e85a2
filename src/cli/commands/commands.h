// The commands of the tool, one file each; those of `weft bench` and `weft slurm` are in cli/bench/ and cli/slurm/.
#ifndef CLI_COMMANDS_COMMANDS_H
#define CLI_COMMANDS_COMMANDS_H

#include "cli/command/command.h"

extern const struct cli_command cli_compare, cli_doctor, cli_elastic, cli_env, cli_help, cli_info, cli_p2p, cli_plan,
    cli_rank, cli_report, cli_serve;
extern const struct cli_command cli_bench_ep, cli_bench_kv, cli_bench_limits, cli_bench_nixlbench, cli_bench_traffic,
    cli_bench_transfer;
extern const struct cli_command cli_slurm_await, cli_slurm_cancel, cli_slurm_dry_run, cli_slurm_report, cli_slurm_run,
    cli_slurm_status, cli_slurm_verify;
extern const struct cli_command cli_slurm_generate_report, cli_slurm_install, cli_slurm_list, cli_slurm_uninstall,
    cli_slurm_verify_configs; // names of CloudAI

#endif
