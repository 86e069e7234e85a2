// Derives the options of a group from the options of a run.
#include "run/common/config.h"

#include <string.h>

#include "base/fail.h"

struct weft_ep_options run_ep_options(const struct run_config *config) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.max_tokens = config->num_tokens ? config->num_tokens : 1;
  options.hidden = config->hidden;
  options.topk = config->topk;
  options.experts_per_rank = config->experts_per_rank;
  options.dtype = config->dtype;
  options.combine_dtype = config->combine_dtype;
  options.mode = config->mode;
  options.window_bytes = config->mode == WEFT_EP_THROUGHPUT ? config->window_bytes : 0;
  options.max_processors = config->memory == WEFT_EP_MEMORY_CUDA ? config->processors : 0;
  options.op_timeout_ms = config->timeout_ms;
  options.operations_per_step = config->operations_per_step;
  options.memory = config->memory;
  return options;
}

int run_ep_open_failed(int err) {
  return strstr(weft_last_error(), "window_bytes") ? fail_context(err, "--window") : err;
}
