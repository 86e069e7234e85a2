// Initial values of the public structs, for languages that have no macros.
#include <weft/agent.h>

#include "base/sized.h"

void weft_agent_options_init(struct weft_agent_options *options, size_t size) {
  static const struct weft_agent_options initial = WEFT_AGENT_OPTIONS_INIT;
  sized_init(options, size, &initial, sizeof initial);
}

void weft_agent_memory_init(struct weft_agent_memory *memory, size_t size) {
  static const struct weft_agent_memory initial = WEFT_AGENT_MEMORY_INIT;
  sized_init(memory, size, &initial, sizeof initial);
}

void weft_metadata_options_init(struct weft_metadata_options *options, size_t size) {
  static const struct weft_metadata_options initial = WEFT_METADATA_OPTIONS_INIT;
  sized_init(options, size, &initial, sizeof initial);
}

void weft_transfer_options_init(struct weft_transfer_options *options, size_t size) {
  static const struct weft_transfer_options initial = WEFT_TRANSFER_OPTIONS_INIT;
  sized_init(options, size, &initial, sizeof initial);
}

void weft_agent_event_init(struct weft_agent_event *event, size_t size) {
  static const struct weft_agent_event initial = WEFT_AGENT_EVENT_INIT;
  sized_init(event, size, &initial, sizeof initial);
}

void weft_post_init(struct weft_post *post, size_t size) {
  static const struct weft_post initial = WEFT_POST_INIT;
  sized_init(post, size, &initial, sizeof initial);
}

void weft_peer_info_init(struct weft_peer_info *info, size_t size) {
  static const struct weft_peer_info initial = WEFT_PEER_INFO_INIT;
  sized_init(info, size, &initial, sizeof initial);
}

void weft_agent_stats_init(struct weft_agent_stats *stats, size_t size) {
  static const struct weft_agent_stats initial = WEFT_AGENT_STATS_INIT;
  sized_init(stats, size, &initial, sizeof initial);
}

void weft_transfer_info_init(struct weft_transfer_info *info, size_t size) {
  static const struct weft_transfer_info initial = WEFT_TRANSFER_INFO_INIT;
  sized_init(info, size, &initial, sizeof initial);
}
