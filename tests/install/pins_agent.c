// Pins the structs of agent.h: made by scripts/pin-structs.py agent.h
#include <stddef.h>

#include <weft/weft.h>

#define PIN_SIZE(type, bytes)          _Static_assert(sizeof(type) == (bytes), "the size of " #type " has changed")
#define PIN_FIELD(type, member, bytes) _Static_assert(offsetof(type, member) == (bytes), #type "." #member " has moved")

PIN_SIZE(struct weft_agent_memory, 56);
PIN_FIELD(struct weft_agent_memory, size, 0);
PIN_FIELD(struct weft_agent_memory, kind, 8);
PIN_FIELD(struct weft_agent_memory, flags, 12);
PIN_FIELD(struct weft_agent_memory, address, 16);
PIN_FIELD(struct weft_agent_memory, length, 24);
PIN_FIELD(struct weft_agent_memory, device, 32);
PIN_FIELD(struct weft_agent_memory, fd, 36);
PIN_FIELD(struct weft_agent_memory, path, 40);
PIN_FIELD(struct weft_agent_memory, transports, 48);

PIN_SIZE(struct weft_descriptor, 24);
PIN_FIELD(struct weft_descriptor, address, 0);
PIN_FIELD(struct weft_descriptor, length, 8);
PIN_FIELD(struct weft_descriptor, region, 16);

PIN_SIZE(struct weft_transport_info, 352);
PIN_FIELD(struct weft_transport_info, name, 0);
PIN_FIELD(struct weft_transport_info, flags, 16);
PIN_FIELD(struct weft_transport_info, local_kinds, 20);
PIN_FIELD(struct weft_transport_info, remote_kinds, 24);
PIN_FIELD(struct weft_transport_info, reserved, 28);
PIN_FIELD(struct weft_transport_info, what, 32);
PIN_FIELD(struct weft_transport_info, why, 96);
PIN_FIELD(struct weft_transport_info, version, 320);

PIN_SIZE(struct weft_agent_options, 80);
PIN_FIELD(struct weft_agent_options, size, 0);
PIN_FIELD(struct weft_agent_options, name, 8);
PIN_FIELD(struct weft_agent_options, transports, 16);
PIN_FIELD(struct weft_agent_options, progress, 24);
PIN_FIELD(struct weft_agent_options, spin_us, 28);
PIN_FIELD(struct weft_agent_options, heartbeat_ms, 32);
PIN_FIELD(struct weft_agent_options, peer_timeout_ms, 36);
PIN_FIELD(struct weft_agent_options, transfer_timeout_ms, 40);
PIN_FIELD(struct weft_agent_options, lease_ttl_s, 44);
PIN_FIELD(struct weft_agent_options, store, 48);
PIN_FIELD(struct weft_agent_options, prefix, 56);
PIN_FIELD(struct weft_agent_options, listen, 64);
PIN_FIELD(struct weft_agent_options, token, 72);

PIN_SIZE(struct weft_memory_status, 32);
PIN_FIELD(struct weft_memory_status, size, 0);
PIN_FIELD(struct weft_memory_status, flags, 8);
PIN_FIELD(struct weft_memory_status, device, 12);
PIN_FIELD(struct weft_memory_status, length, 16);
PIN_FIELD(struct weft_memory_status, region, 24);

PIN_SIZE(struct weft_metadata_options, 24);
PIN_FIELD(struct weft_metadata_options, size, 0);
PIN_FIELD(struct weft_metadata_options, flags, 8);
PIN_FIELD(struct weft_metadata_options, num_regions, 12);
PIN_FIELD(struct weft_metadata_options, regions, 16);

PIN_SIZE(struct weft_region_info, 40);
PIN_FIELD(struct weft_region_info, region, 0);
PIN_FIELD(struct weft_region_info, address, 8);
PIN_FIELD(struct weft_region_info, length, 16);
PIN_FIELD(struct weft_region_info, kind, 24);
PIN_FIELD(struct weft_region_info, device, 28);
PIN_FIELD(struct weft_region_info, flags, 32);
PIN_FIELD(struct weft_region_info, reserved, 36);

PIN_SIZE(struct weft_peer_info, 648);
PIN_FIELD(struct weft_peer_info, size, 0);
PIN_FIELD(struct weft_peer_info, peer, 8);
PIN_FIELD(struct weft_peer_info, incarnation, 16);
PIN_FIELD(struct weft_peer_info, received_ns, 24);
PIN_FIELD(struct weft_peer_info, state, 32);
PIN_FIELD(struct weft_peer_info, num_regions, 36);
PIN_FIELD(struct weft_peer_info, name, 40);
PIN_FIELD(struct weft_peer_info, reason, 168);
PIN_FIELD(struct weft_peer_info, transports, 328);
PIN_FIELD(struct weft_peer_info, uses, 488);

PIN_SIZE(struct weft_agent_event, 320);
PIN_FIELD(struct weft_agent_event, size, 0);
PIN_FIELD(struct weft_agent_event, kind, 8);
PIN_FIELD(struct weft_agent_event, dropped, 12);
PIN_FIELD(struct weft_agent_event, peer, 16);
PIN_FIELD(struct weft_agent_event, time_ns, 24);
PIN_FIELD(struct weft_agent_event, name, 32);
PIN_FIELD(struct weft_agent_event, detail, 160);

PIN_SIZE(struct weft_transfer_run, 20);
PIN_FIELD(struct weft_transfer_run, local_first, 0);
PIN_FIELD(struct weft_transfer_run, local_stride, 4);
PIN_FIELD(struct weft_transfer_run, remote_first, 8);
PIN_FIELD(struct weft_transfer_run, remote_stride, 12);
PIN_FIELD(struct weft_transfer_run, count, 16);

PIN_SIZE(struct weft_transfer_options, 72);
PIN_FIELD(struct weft_transfer_options, size, 0);
PIN_FIELD(struct weft_transfer_options, local_index, 8);
PIN_FIELD(struct weft_transfer_options, remote_index, 16);
PIN_FIELD(struct weft_transfer_options, runs, 24);
PIN_FIELD(struct weft_transfer_options, num_index, 32);
PIN_FIELD(struct weft_transfer_options, num_runs, 36);
PIN_FIELD(struct weft_transfer_options, notification, 40);
PIN_FIELD(struct weft_transfer_options, notification_size, 48);
PIN_FIELD(struct weft_transfer_options, timeout_ms, 52);
PIN_FIELD(struct weft_transfer_options, max_notification, 56);
PIN_FIELD(struct weft_transfer_options, reserved, 60);
PIN_FIELD(struct weft_transfer_options, transport, 64);

PIN_SIZE(struct weft_post, 40);
PIN_FIELD(struct weft_post, size, 0);
PIN_FIELD(struct weft_post, notification, 8);
PIN_FIELD(struct weft_post, notification_size, 16);
PIN_FIELD(struct weft_post, flags, 20);
PIN_FIELD(struct weft_post, timeout_ms, 24);
PIN_FIELD(struct weft_post, reserved, 28);
PIN_FIELD(struct weft_post, tag, 32);

PIN_SIZE(struct weft_completion, 24);
PIN_FIELD(struct weft_completion, tag, 0);
PIN_FIELD(struct weft_completion, transfer, 8);
PIN_FIELD(struct weft_completion, err, 16);
PIN_FIELD(struct weft_completion, reserved, 20);

PIN_SIZE(struct weft_transfer_info, 72);
PIN_FIELD(struct weft_transfer_info, size, 0);
PIN_FIELD(struct weft_transfer_info, bytes, 8);
PIN_FIELD(struct weft_transfer_info, posts, 16);
PIN_FIELD(struct weft_transfer_info, start_ns, 24);
PIN_FIELD(struct weft_transfer_info, end_ns, 32);
PIN_FIELD(struct weft_transfer_info, estimate_ns, 40);
PIN_FIELD(struct weft_transfer_info, pairs, 48);
PIN_FIELD(struct weft_transfer_info, pieces, 52);
PIN_FIELD(struct weft_transfer_info, transport, 56);

PIN_SIZE(struct weft_notification, 24);
PIN_FIELD(struct weft_notification, peer, 0);
PIN_FIELD(struct weft_notification, bytes, 8);
PIN_FIELD(struct weft_notification, size, 16);
PIN_FIELD(struct weft_notification, reserved, 20);

PIN_SIZE(struct weft_agent_stats, 112);
PIN_FIELD(struct weft_agent_stats, size, 0);
PIN_FIELD(struct weft_agent_stats, reads, 8);
PIN_FIELD(struct weft_agent_stats, read_bytes, 16);
PIN_FIELD(struct weft_agent_stats, read_errors, 24);
PIN_FIELD(struct weft_agent_stats, read_cancels, 32);
PIN_FIELD(struct weft_agent_stats, read_ns, 40);
PIN_FIELD(struct weft_agent_stats, writes, 48);
PIN_FIELD(struct weft_agent_stats, write_bytes, 56);
PIN_FIELD(struct weft_agent_stats, write_errors, 64);
PIN_FIELD(struct weft_agent_stats, write_cancels, 72);
PIN_FIELD(struct weft_agent_stats, write_ns, 80);
PIN_FIELD(struct weft_agent_stats, notifications_sent, 88);
PIN_FIELD(struct weft_agent_stats, notifications_taken, 96);
PIN_FIELD(struct weft_agent_stats, messages_dropped, 104);
