"""The calls of nixl_ep and deep_ep have the names, parameters and defaults that programs are written for."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))  # the tests' folder

from original_calls import check_calls

import deep_ep
import nixl_ep
from deep_ep.utils import envs, gate, math, refs, testing

NIXL_EP = """
    __init__(disable_ll_nvlink=False, explicitly_destroy=False, rank=0, low_latency_mode=True, group=None,
        comm=None, tcp_store_group=None, timeout_ms=DEFAULT_TIMEOUT_MS)
    destroy()
    is_sm90_compiled()
    set_num_sms(new_num_sms)
    capture()
    get_low_latency_buffer_size_hint(num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts)
    get_rdma_size_hint(num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts)
    get_comm_stream()
    get_local_buffer_tensor(dtype, size=None, offset=0, use_rdma_buffer=False)
    get_dispatch_config(num_ranks)
    get_combine_config(num_ranks)
    get_dispatch_layout(topk_idx, num_experts, previous_event=None, async_finish=False,
        allocate_on_comm_stream=False)
    low_latency_dispatch(x, topk_idx, num_max_dispatch_tokens_per_rank, num_experts=None,
        cumulative_local_expert_recv_stats=None, dispatch_wait_recv_cost_stats=None, use_fp8=True,
        round_scale=False, use_ue8m0=False, async_finish=False, return_recv_hook=False)
    dispatch(*args, **kwargs)
    low_latency_combine(x, topk_idx, topk_weights, handle, use_logfmt=False, zero_copy=False,
        async_finish=False, return_recv_hook=False, out=None, combine_wait_recv_cost_stats=None)
    combine(*args, **kwargs)
    ht_dispatch(x, handle=None, num_tokens_per_rank=None, num_tokens_per_rdma_rank=None, is_token_in_rank=None,
        num_tokens_per_expert=None, topk_idx=None, topk_weights=None, expert_alignment=1, config=None,
        previous_event=None, async_finish=False, allocate_on_comm_stream=False)
    ht_combine(x, handle, topk_weights=None, bias=None, config=None, previous_event=None, async_finish=False,
        allocate_on_comm_stream=False)
    update_mask_buffer(rank_to_mask, mask=False)
    query_mask_buffer(mask_status)
    clean_mask_buffer()
    get_next_combine_buffer(handle)
    update_memory_buffers(num_ranks, num_experts_per_rank, num_rdma_bytes, num_nvl_bytes=0)
    set_tcp_store_group(tcp_store_group)
    connect_ranks(remote_ranks, activate=True)
    disconnect_ranks(remote_ranks)
    barrier()
"""
LEGACY = """
    __init__(group, num_nvl_bytes=0, num_rdma_bytes=0, low_latency_mode=False, num_qps_per_rank=24,
        allow_nvlink_for_low_latency_mode=True, allow_mnnvl=False, explicitly_destroy=False,
        enable_shrink=False, comm=None)
    destroy()
    is_sm90_compiled()
    set_num_sms(new_num_sms)
    capture()
    get_low_latency_rdma_size_hint(num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts)
    get_comm_stream()
    get_local_buffer_tensor(dtype, size=None, offset=0, use_rdma_buffer=False)
    get_dispatch_config(num_ranks)
    get_combine_config(num_ranks)
    get_dispatch_layout(topk_idx, num_experts, previous_event=None, async_finish=False,
        allocate_on_comm_stream=False)
    dispatch(x, handle=None, num_tokens_per_rank=None, num_tokens_per_rdma_rank=None, is_token_in_rank=None,
        num_tokens_per_expert=None, topk_idx=None, topk_weights=None, expert_alignment=1, num_worst_tokens=0,
        config=None, previous_event=None, async_finish=False, allocate_on_comm_stream=False)
    combine(x, handle, topk_weights=None, bias=None, config=None, previous_event=None, async_finish=False,
        allocate_on_comm_stream=False)
    internode_dispatch(x, handle=None, num_tokens_per_rank=None, num_tokens_per_rdma_rank=None,
        is_token_in_rank=None, num_tokens_per_expert=None, topk_idx=None, topk_weights=None, expert_alignment=1,
        config=None, previous_event=None, async_finish=False, allocate_on_comm_stream=False)
    internode_combine(x, handle, topk_weights=None, bias=None, config=None, previous_event=None,
        async_finish=False, allocate_on_comm_stream=False)
    clean_low_latency_buffer(num_max_dispatch_tokens_per_rank, hidden, num_experts)
    low_latency_dispatch(x, topk_idx, num_max_dispatch_tokens_per_rank, num_experts,
        cumulative_local_expert_recv_stats=None, dispatch_wait_recv_cost_stats=None, use_fp8=True,
        round_scale=False, use_ue8m0=False, async_finish=False, return_recv_hook=False)
    low_latency_combine(x, topk_idx, topk_weights, handle, use_logfmt=False, zero_copy=False,
        async_finish=False, return_recv_hook=False, out=None, combine_wait_recv_cost_stats=None)
    low_latency_update_mask_buffer(rank_to_mask, mask=False)
    low_latency_query_mask_buffer(mask_status)
    low_latency_clean_mask_buffer()
    get_next_low_latency_combine_buffer(handle)
"""
V2 = """
    __init__(group, num_bytes=None, num_cpu_bytes=0, num_max_tokens_per_rank=0, hidden=0, num_topk=0,
        use_fp8_dispatch=False, deterministic=False, allow_hybrid_mode=True, allow_multiple_reduction=True,
        prefer_overlap_with_compute=True, sl_idx=3, num_allocated_qps=0, num_cpu_timeout_secs=300,
        num_gpu_timeout_secs=100, explicitly_destroy=False)
    destroy()
    get_buffer_size_hint(group, num_max_tokens_per_rank, hidden, num_topk=0, use_fp8_dispatch=False,
        allow_hybrid_mode=True, allow_multiple_reduction=True)
    barrier(use_comm_stream=True, with_cpu_sync=False, sequential=True)
    capture()
    get_comm_stream()
    get_physical_domain_size()
    get_logical_domain_size()
    get_theoretical_num_sms(num_experts, num_topk, num_scaleout_topk=0, rdma_gbs=0, nvlink_gbs=0,
        sm_read_gbs=200, sm_write_gbs=50)
    get_theoretical_num_qps(num_sms)
    dispatch(x, topk_idx=None, topk_weights=None, cumulative_local_expert_recv_stats=None, num_experts=None,
        num_max_tokens_per_rank=None, expert_alignment=None, num_sms=0, num_qps=0, previous_event=None,
        previous_event_before_epilogue=None, async_with_compute_stream=False, allocate_on_comm_stream=False,
        handle=None, do_handle_copy=True, do_cpu_sync=None, do_expand=False, do_zero_padding=False,
        use_tma_aligned_col_major_sf=False)
    combine(x, handle, topk_weights=None, bias=None, num_sms=0, num_qps=0, previous_event=None,
        previous_event_before_epilogue=None, async_with_compute_stream=False, allocate_on_comm_stream=False)
"""
V25 = """
    __init__(group, num_bytes=None, num_max_tokens_per_rank=0, hidden=0, num_topk=0, use_fp8_dispatch=False,
        lb_allocation_plan_or_num_bytes=0, deterministic=False, allow_hybrid_mode=True, allow_multiple_reduction=True,
        prefer_overlap_with_compute=True, sl_idx=None, num_allocated_qps=0, num_cpu_timeout_secs=300,
        num_gpu_timeout_secs=100, explicitly_destroy=False)
    destroy()
    get_buffer_size_hint(group, num_max_tokens_per_rank, hidden, num_topk=0, use_fp8_dispatch=False,
        allow_hybrid_mode=True, allow_multiple_reduction=True)
    barrier(wait_comm_stream=True, with_cpu_sync=False, sequential=True, context_idx=None)
    capture()
    get_comm_stream()
    get_physical_domain_size()
    get_logical_domain_size()
    get_theoretical_num_sms(num_experts, num_topk, num_scaleout_topk=0, rdma_gbs=0, nvlink_gbs=0, sm_read_gbs=0,
        sm_write_gbs=0)
    get_theoretical_num_qps(num_sms)
    dispatch(x, topk_idx=None, topk_weights=None, cumulative_local_expert_recv_stats=None, num_experts=None,
        num_max_tokens_per_rank=None, expert_alignment=None, num_sms=0, num_qps=0, previous_event=None,
        async_with_compute_stream=False, allocate_on_comm_stream=False, handle=None, do_handle_copy=False,
        do_cpu_sync=None, do_expand=False, do_zero_padding=False, use_tma_aligned_col_major_sf=False,
        defer_epilogue=False)
    combine(x, handle, topk_weights=None, bias=None, num_sms=0, num_qps=0, previous_event=None,
        async_with_compute_stream=False, allocate_on_comm_stream=False, defer_epilogue=False)
"""


ENVS = """
    init_dist(local_rank, num_local_ranks, seed=0)
    init_seed(global_seed)
    get_local_seed()
    get_global_seed()
    dist_print(s='', once_in_node=False)
    get_physical_domain_size(group)
    get_logical_domain_size(group, allow_hybrid_mode=True)
"""
MATH = """
    calc_diff(x, y)
    safe_div(a, b)
    ceil_div(x, y)
    align(x, y)
    per_token_cast_to_fp8(x)
    per_token_cast_back(x_fp8, x_scales)
    inplace_unique(x, num_slots)
    create_grouped_scores(scores, group_idx, num_groups)
    hash_tensor(t)
    hash_tensors(*tensors)
    count_bytes(*tensors)
"""
GATE = """
    get_unbalanced_scores(num_tokens, num_experts, num_ranks, num_topk, ratio, precise)
"""
REFS = """
    dispatch(x, topk_idx, topk_weights, num_max_tokens_per_rank, num_experts)
    generate_pre_combine_data(src_token_global_idx, num_max_tokens_per_rank, num_topk, hidden)
    ordered_accumulate(data, initial_value=None)
    combine(y, topk_idx, num_scaleout_ranks, num_scaleup_ranks, num_experts, bias, reduce_in_local, reduce_in_scaleup)
"""
TESTING = """
    flush_l2_cache(enabled=True)
    bench(fn, num_warmups=30, num_tests=30, post_fn=None, flush_l2=True)
    bench_kineto(fn, kernel_names, num_tests=30, suppress_kineto_output=False, trace_path=None, flush_l2=True,
        barrier_comm_profiling=False, num_kernels_per_period=1, barrier=None)
"""
EVENT = """
    __init__(event=None, extra_tensors=None)
    current_stream_wait(release_handle=False)
    wait()
    register_hook_after_wait(hook_after_wait)
    __call__(release_handle=False)
"""


@pytest.mark.parametrize(("owner", "calls"), [
    (nixl_ep.Buffer, NIXL_EP), (deep_ep.Buffer, LEGACY), (deep_ep.ElasticBuffer, V2), (deep_ep.EPBuffer, V25),
    (deep_ep.EventOverlap, EVENT), (envs, ENVS), (math, MATH), (testing, TESTING), (gate, GATE), (refs, REFS)])
def test_calls(owner: Any, calls: str) -> None:
    check_calls(owner, calls)
