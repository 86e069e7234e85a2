"""The calls of an agent have the names, parameters and defaults that programs are written for."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))  # the tests' folder

from original_calls import check_calls

from nixl._api import nixl_agent

AGENT = """
    __init__(agent_name, nixl_conf=None, instantiate_all=False)
    get_plugin_list()
    get_plugin_mem_types(backend)
    get_plugin_params(backend)
    get_backend_mem_types(backend)
    get_backend_params(backend)
    create_backend(backend, initParams={})
    register_memory(reg_list, mem_type=None, backends=[])
    deregister_memory(dereg_list, backends=[])
    query_memory(reg_list, backend, mem_type=None)
    make_connection(remote_agent, backends=[])
    prep_xfer_dlist(agent_name, xfer_list, mem_type=None, backends=[])
    estimate_xfer_cost(req_handle)
    make_prepped_xfer(operation, local_xfer_side, local_indices, remote_xfer_side, remote_indices,
        notif_msg=b'', backends=[], skip_desc_merge=False)
    initialize_xfer(operation, local_descs, remote_descs, remote_agent, notif_msg=b'', backends=[])
    transfer(handle, notif_msg=b'')
    check_xfer_state(handle)
    get_xfer_telemetry(handle)
    query_xfer_backend(handle)
    release_xfer_handle(handle)
    release_dlist_handle(handle)
    prep_mem_view(dlist, *, backends=None)
    release_mem_view(mvh)
    get_new_notifs(backends=[])
    update_notifs(backends=[])
    check_remote_xfer_done(remote_agent_name, lookup_tag, backends=[], tag_is_prefix=True)
    send_notif(remote_agent_name, notif_msg, backend=None)
    get_agent_metadata()
    get_partial_agent_metadata(descs, inc_conn_info=False, backends=[])
    add_remote_agent(metadata)
    remove_remote_agent(agent)
    send_local_metadata(ip_addr='', port=DEFAULT_COMM_PORT)
    send_partial_agent_metadata(descs, inc_conn_info=False, backends=[], ip_addr='', port=DEFAULT_COMM_PORT,
        label='')
    fetch_remote_metadata(remote_agent, ip_addr='', port=DEFAULT_COMM_PORT, label='')
    invalidate_local_metadata(ip_addr='', port=DEFAULT_COMM_PORT)
    check_remote_metadata(agent, descs=None)
    get_xfer_descs(descs, mem_type=None)
    get_remote_descs(descs, mem_type=None)
    get_reg_descs(descs, mem_type=None)
    get_serialized_descs(descs)
    deserialize_descs(serialized_descs)
"""


def test_calls() -> None:
    check_calls(nixl_agent, AGENT)
