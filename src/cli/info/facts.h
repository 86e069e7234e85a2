// The facts that `weft info` prints, gathered as JSON. The text is made from the same objects.
#ifndef CLI_INFO_FACTS_H
#define CLI_INFO_FACTS_H

#include <jansson.h>

#include "cli/command/command.h"

// Each returns an object or array that the caller owns. NULL: memory ran out.

// {compiler, target, type, flags, sanitizers, libraries: [{name, version, for}]}; the version is null for a library
// that the build does not use.
json_t *cli_info_build(void);

// [{name, version, for, avoided: [{what, why, instead}]}]: as they are loaded here; the version is null for
// one that cannot be loaded.
json_t *cli_info_libraries(void);

// [{name, reach, available, reason, kernels, variants}]: `reason` says why it is not available here.
json_t *cli_info_transports(void);

// {available, reason, visible, devices: [{index, name, pci, uuid, compute_capability, processors, memory_bytes,
// windows, fabric}]}: `reason` says why there is none for `weft elastic --memory cuda`, `visible` is
// CUDA_VISIBLE_DEVICES or null; a device that cannot be described has {index, error}.
json_t *cli_info_gpus(void);

// The result of topology_choice_describe(); {known: false, error} if WEFT_NICS names a NIC that does not exist.
json_t *cli_info_choice(void);

// On which processors the threads run that drive transports, in words, if they have no GPU of their own.
json_t *cli_info_threads(void);

// [{name, value, meaning}]: value null means no limit.
json_t *cli_info_limits(void);

// [{command, option, alias, variable, default, value, source, error}], a row for each option of each command. `source`
// is "environment", "default" or "unset"; the value of a secret is "set"; `error` says what is wrong with the
// variable's.
json_t *cli_info_options(const struct cli_command *const *commands);

// [{variable, default, value, help, error}]: the variables that are no option; `error` says what is wrong with the
// value.
json_t *cli_info_variables(void);

// [{variable, meant}]: variables of the environment that begin with WEFT_ and mean nothing here; `meant` is the nearest
// that does, or null.
json_t *cli_info_unknown_variables(const struct cli_command *const *commands);

#endif
