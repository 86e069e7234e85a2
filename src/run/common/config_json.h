// The part of the configuration that all processes of a run share, as JSON: the lead writes it into the store and into
// config.json; followers and ranks read it.
#ifndef RUN_COMMON_CONFIG_JSON_H
#define RUN_COMMON_CONFIG_JSON_H

#include <jansson.h>

#include "run/common/config.h"

// No paths and no secrets. NULL when memory ran out.
json_t *run_settings_to_json(const struct run_config *config);

// Overwrites the shared fields of `config`. PROTOCOL names the field that is missing or wrong.
int run_settings_from_json(struct run_config *config, const json_t *json);

// INVALID names a setting whose value on the command line of `config` differs from the value in the lead's settings.
int run_settings_check_given(const struct run_config *config, const json_t *lead);

#endif
