# Sets weft_relay_sources: the plug-in has them, and tests too, since there is no CUDA in them.
set(weft_relay_sources collect.c deliver.c flow.c flow_share.c relay.c)
list(TRANSFORM weft_relay_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
