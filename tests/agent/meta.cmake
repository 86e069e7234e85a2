# Metadata, its exchange, liveness and telemetry.

weft_test(agent_wheel PROVES "Each timer of a wheel fires once, never early and at most two ticks late."
  SOURCES wheel.c LAYERS agent VALGRIND)

set(support ${CMAKE_CURRENT_SOURCE_DIR}/../support/wait.c)
weft_test(agent_by_hand PROVES
  "An agent loads metadata whole or not at all, adds what is partial, and lets nothing old undo what is new."
  SOURCES by_hand.c describe.c crowd.c ${support} LAYERS agent)
weft_test(agent_liars PROVES
  "Metadata without the token's seal reaches no transport, and a peer that lies of its name, others, its regions or in its messages harms itself alone."
  SOURCES liars.c describe.c crowd.c ${support} LAYERS agent)
weft_test(agent_liveness PROVES
  "An idle peer that is killed, stopped or closed is noticed by itself, and nobody is blamed for time not looked."
  SOURCES liveness.c crowd.c ${support} LAYERS agent)
weft_test(agent_meet PROVES "Agents with one token meet by socket, both ways at once, and others are refused."
  SOURCES meet.c meeting.c crowd.c ${support} LAYERS agent)
weft_test(agent_strangers PROVES
  "Nobody who calls without the token learns anything or holds the others up, however slowly it speaks or what it repeats."
  SOURCES strangers.c raw.c meeting.c crowd.c ${CMAKE_CURRENT_SOURCE_DIR}/../support/relay.c ${support} LAYERS agent)
weft_test(agent_meet_liars PROVES
  "Who has the token and lies about lengths, kinds, versions or turns loses its connection, and holds a bounded memory and time."
  SOURCES meet_liars.c raw.c meeting.c crowd.c ${support} LAYERS agent)
weft_test(agent_impostors PROVES
  "Who has the token and shows another agent's metadata on a connection of its own is refused, and that agent stays as it was."
  SOURCES impostors.c raw.c meeting.c crowd.c ${support} LAYERS agent)
weft_test(agent_flood PROVES "Agents meet while ten thousand strangers call, silent ones, slow ones and such that send garbage."
  SOURCES flood.c meeting.c crowd.c ${support} LAYERS agent)
weft_test(agent_store_local PROVES
  "Through the store of a process, metadata comes, changes and goes as its agents do, and no deletion is missed."
  SOURCES store.c ${CMAKE_CURRENT_SOURCE_DIR}/../support/relay.c kind_local.c crowd.c ${support} LAYERS agent)
if(MICROHTTPD_FOUND)
  weft_test(agent_store_embedded PROVES
    "The same through the embedded server, which is killed and comes back empty while running peers stay."
    SOURCES store.c ${CMAKE_CURRENT_SOURCE_DIR}/../support/relay.c kind_served.c crowd.c ${CMAKE_CURRENT_SOURCE_DIR}/../support/etcd.c ${support} LAYERS agent LIBS PkgConfig::CURL)
endif()
weft_test(agent_store_etcd PROVES
  "The same through a real etcd, which is killed and comes back with its data and without."
  SOURCES store.c ${CMAKE_CURRENT_SOURCE_DIR}/../support/relay.c kind_served.c crowd.c ${CMAKE_CURRENT_SOURCE_DIR}/../support/etcd.c ${support} LAYERS agent LIBS PkgConfig::CURL LABELS etcd)
target_compile_definitions(test_agent_store_etcd PRIVATE KIND_ETCD)

add_executable(agent_metrics_served metrics_served.c crowd.c ${support})
target_link_libraries(agent_metrics_served PRIVATE weft_flags weft_agent PkgConfig::CMOCKA)
target_include_directories(agent_metrics_served PRIVATE ${PROJECT_SOURCE_DIR}/tests)
weft_script_test(agent_metrics PROVES
  "An agent's metrics are OpenMetrics 1.0 by a strict reader and count what its transfers did, only who has the bearer reads them, and a thousand silent callers hold nobody up."
  COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/metrics.py $<TARGET_FILE:agent_metrics_served>)

# Agents of test hosts, one of which is cut off; where there is a root. (Over UCX not the stories in which a peer is lost
# while something for it is on its way, and comes back: one of some thirty ends in a fault of UCX's, see docs/design.md.)
if(TARGET weft_ofi_plugin OR TARGET weft_ucx_plugin)
  add_executable(agent_far_host far_host.c)
  target_link_libraries(agent_far_host PRIVATE weft_flags weft_agent)
endif()
function(weft_far_hosts_test name transport)
  cmake_parse_arguments(ARG "" "PROVES" "STORIES" ${ARGN})
  if(TARGET weft_${transport}_plugin)
    add_dependencies(agent_far_host weft_${transport}_plugin)
    string(TOUPPER ${transport} upper)
    weft_script_test(${name} TIMEOUT 300 LABELS slow etcd
      COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/far_hosts.py $<TARGET_FILE:agent_far_host> ${transport} ${ARG_STORIES}
      ENVIRONMENT PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/run
      WEFT_${upper}_PLUGIN=$<TARGET_FILE:weft_${transport}_plugin> PROVES ${ARG_PROVES})
  endif()
endfunction()
weft_far_hosts_test(agent_hosts_ofi ofi
  STORIES for_a_moment within_its_lease longer_than_its_lease unreachable_at_first PROVES
  "An agent whose host is cut off is lost or has left in words, and works again over ofi when it was fetched again.")
weft_far_hosts_test(agent_hosts_ucx ucx STORIES for_a_moment unreachable_at_first PROVES
  "Over ucx a link that is cut for a moment loses nothing, nor do first calls that find nobody at the peer's address.")
foreach(transport ofi ucx)
  weft_far_hosts_test(agent_late_${transport} ${transport} STORIES late_write late_write_of_the_patient PROVES
    "What a lost agent was writing over ${transport} does not land later, when the link to its host is back.")
endforeach()
