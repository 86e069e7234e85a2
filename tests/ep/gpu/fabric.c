// Ranks on CUDA memory that are configured as on two hosts, on a plug-in without a GPU: whether NVLink joins them, and
// what happens where it does not reach.
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "ep/gpu/gpu.h"
#include "ep/support/raw_peer.h"

static void set_fabric(const char *value) {
  if (value)
    setenv("FAKE_FABRIC", value, 1);
  else
    unsetenv("FAKE_FABRIC");
}

// Ranks that are given no transport take one of their own choice only in a store that other hosts may use.
static weft_store_server_t *server;

static weft_store_t *served_store(void) {
  struct weft_store_server_options serve = WEFT_STORE_SERVER_OPTIONS_INIT;
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store;
  serve.flags = WEFT_STORE_SERVER_INSECURE;
  assert_int_equal(weft_store_server_start(&server, &serve), 0);
  options.endpoints = weft_store_server_url(server);
  assert_int_equal(weft_store_open(&store, &options), 0);
  return store;
}

static weft_store_t *own_store(void) {
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  return store;
}

static void await_down(const struct ep_link *link, enum ep_link_state state) {
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS);
  while (ep_link_up(link) && !clock_passed(deadline_ns))
    poll(NULL, 0, 1);
  assert_int_equal(atomic_load(&link->state), state);
}

static void nvlink_is_taken_where_it_reaches(void **state) {
  (void)state;
  struct hosts hosts;
  set_fabric("reaches");
  hosts_open_by(&hosts, WEFT_EP_MEMORY_CUDA, NULL, served_store());
  struct ep_link *link = hosts_connect_and_hold(&hosts), *back = ep_link_find(hosts.caller, 0, 0);
  assert_string_equal(ep_remote_way(link->remote), EP_FABRIC);
  assert_string_equal(ep_remote_way(back->remote), EP_FABRIC);
  assert_null(atomic_load(&hosts.called->net)); // no transport was opened
  assert_null(atomic_load(&hosts.caller->net));
  // Each writes what the other reads.
  memcpy(back->device.out.memory, "a word", 7);
  assert_string_equal(link->device.in.memory, "a word");
  memcpy(link->device.out.memory, "another", 8);
  assert_string_equal(back->device.in.memory, "another");
  weft_ep_close(hosts.caller);
  hosts.caller = NULL;
  await_down(link, EP_LINK_LEFT);
  raw_peer_hold(hosts.called, link, -1);
  hosts_close(&hosts);
  weft_store_server_stop(server);
}

// Opens the ranks, has one connect to the other, and asserts by which way.
static void expect_way(const char *fabric, const char *asked, weft_store_t *store, const char *way) {
  struct hosts hosts;
  set_fabric(fabric);
  hosts_open_by(&hosts, WEFT_EP_MEMORY_CUDA, asked, store);
  struct ep_link *link = hosts_connect_and_hold(&hosts);
  if (way)
    assert_string_equal(ep_remote_way(link->remote), way);
  else
    assert_string_not_equal(ep_remote_way(link->remote), EP_FABRIC);
  assert_true(ep_link_up(ep_link_find(hosts.caller, 0, 0)));
  raw_peer_hold(hosts.called, link, -1);
  hosts_close(&hosts);
}

static void a_transport_that_is_asked_for_is_taken(void **state) {
  (void)state;
  expect_way("reaches", "shm", own_store(), "shm");
  expect_way("reaches", EP_FABRIC, own_store(), EP_FABRIC);
}

static void without_it_a_transport_is_taken(void **state) {
  (void)state;
  if (!getenv("WEFT_OFI_PLUGIN"))
    skip();
  static const char *const fabrics[] = {NULL, "mute", "once"}; // no names; the called one, the caller cannot map it
  for (size_t i = 0; i < sizeof fabrics / sizeof *fabrics; i++) {
    expect_way(fabrics[i], NULL, served_store(), NULL);
    weft_store_server_stop(server);
  }
}

static void expect_refusal(const char *fabric, enum weft_ep_memory memory, const char *text) {
  static const int32_t called = 0;
  struct hosts hosts;
  set_fabric(fabric);
  hosts_open_by(&hosts, memory, EP_FABRIC, own_store());
  assert_int_equal(weft_ep_connect(hosts.caller, &called, 1, RAW_PEER_DEADLINE_MS), WEFT_ERR_UNSUPPORTED);
  if (!strstr(weft_last_error(), text))
    fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), text);
  assert_null(ep_link_find(hosts.caller, 0, 0));
  hosts_close(&hosts);
}

static void nothing_else_is_taken_if_it_is_asked_for(void **state) {
  (void)state;
  expect_refusal(NULL, WEFT_EP_MEMORY_CUDA, "the fakes have no fabric");
  expect_refusal("mute", WEFT_EP_MEMORY_CUDA,
                 "rank 0 refused: the window of rank 1 on its GPU: the fabric does not reach");
  expect_refusal("reaches", WEFT_EP_MEMORY_HOST, "NVLink joins GPUs, and rank 1 runs on host memory");
}

static struct hosts *ending; // the called rank of these is closed when the caller begins to map its window

int __real_ep_gpu_link_map_fabric(weft_ep_t *ep, struct ep_link *link, const uint8_t *name);
int __wrap_ep_gpu_link_map_fabric(weft_ep_t *ep, struct ep_link *link, const uint8_t *name);
int __wrap_ep_gpu_link_map_fabric(weft_ep_t *ep, struct ep_link *link, const uint8_t *name) {
  if (ending && ending->caller == ep) {
    weft_ep_close(ending->called);
    ending->called = NULL;
  }
  return __real_ep_gpu_link_map_fabric(ep, link, name);
}

// The caller finds no window of that name.
static void a_rank_that_ends_in_the_handshake_is_gone_and_not_out_of_reach(void **state) {
  (void)state;
  static const int32_t called = 0;
  struct hosts hosts;
  set_fabric("reaches");
  hosts_open_by(&hosts, WEFT_EP_MEMORY_CUDA, EP_FABRIC, own_store());
  ending = &hosts;
  int rc = weft_ep_connect(hosts.caller, &called, 1, 500);
  ending = NULL;
  assert_null(hosts.called);
  if (rc != WEFT_ERR_TIMEOUT)
    fail_msg("%s: %s", weft_err_name(rc), weft_last_error());
  assert_null(ep_link_find(hosts.caller, 0, 0));
  hosts_close(&hosts);
}

// Neither takes the other's call.
static void ranks_with_different_transports_refuse_each_other(void **state) {
  (void)state;
  static const int32_t called = 0;
  struct hosts hosts;
  set_fabric("reaches");
  hosts_open_by(&hosts, WEFT_EP_MEMORY_CUDA, "shm", own_store());
  hosts.transport = EP_FABRIC;
  weft_ep_t *third = hosts_rank(&hosts, 2, "three");
  assert_int_equal(weft_ep_connect(third, &called, 1, RAW_PEER_DEADLINE_MS), WEFT_ERR_UNSUPPORTED);
  if (!strstr(weft_last_error(), "rank 0 reaches other hosts by shm and not by nvlink"))
    fail_msg("%s", weft_last_error());
  static const int32_t third_rank = 2;
  assert_int_equal(weft_ep_connect(hosts.called, &third_rank, 1, RAW_PEER_DEADLINE_MS), WEFT_ERR_UNSUPPORTED);
  if (!strstr(weft_last_error(), "rank 2 reaches other hosts by nvlink and not by shm"))
    fail_msg("%s", weft_last_error());
  weft_ep_close(third);
  hosts_close(&hosts);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nvlink_is_taken_where_it_reaches),
      cmocka_unit_test(a_transport_that_is_asked_for_is_taken),
      cmocka_unit_test(without_it_a_transport_is_taken),
      cmocka_unit_test(nothing_else_is_taken_if_it_is_asked_for),
      cmocka_unit_test(a_rank_that_ends_in_the_handshake_is_gone_and_not_out_of_reach),
      cmocka_unit_test(ranks_with_different_transports_refuse_each_other),
  };
  return cmocka_run_group_tests_name("ep_fabric", tests, NULL, NULL);
}
