// The plug-in's table, its only symbol.
#include "cuda/plugin.h"

static const struct device_api api = {
    .abi = DEVICE_ABI,
    .count = cuda_count,
    .describe = cuda_describe,
    .check_peer = cuda_check_peer,
    .open = cuda_open,
    .close = cuda_close,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .owner = cuda_owner,
    .window_create = cuda_window_create,
    .window_map = cuda_window_map,
    .window_release = cuda_window_release,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .stream_wait = cuda_stream_wait,
    .stream_device = cuda_stream_device,
    .stream_capturing = cuda_stream_capturing,
    .mark_open = cuda_mark_open,
    .mark_close = cuda_mark_close,
    .mark_set = cuda_mark_set,
    .mark_between = cuda_mark_between,
    .ep_area_bytes = cuda_ep_area_bytes,
    .ep_open = cuda_ep_open,
    .ep_close = cuda_ep_close,
    .ep_memory = cuda_ep_memory,
    .ep_report = cuda_ep_report,
    .ep_publish = cuda_ep_publish,
    .ep_control = cuda_ep_control,
    .ep_seat = cuda_ep_seat,
    .ep_begin = cuda_ep_begin,
    .ep_await_begin = cuda_ep_await_begin,
    .ep_dispatch = cuda_ep_dispatch,
    .ep_combine = cuda_ep_combine,
    .ep_finish = cuda_ep_finish,
    .ep_record = cuda_ep_record,
    .ep_missing = cuda_ep_missing,
};

__attribute__((visibility("default"))) device_api_fn weft_cuda_api;
const struct device_api *weft_cuda_api(void) {
  return &api;
}
