// The store is stopped and comes back, with its keys or empty, while agents run.
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/exchange/support/store_agent.h"
#include "agent/exchange/support/store_kind.h"
#include "agent/exchange/support/store_suite.h"
#include "base/time/clock.h"
#include "cmocka_all.h"
#include "support/relay.h"
#include "support/wait.h"

static bool has_key(void *arg) {
  struct weft_store_list *list;
  if (weft_store_range(arg, "/weft/test/agents/a", false, 0, &list) != 0)
    return false;
  bool has = list->count == 1;
  weft_store_list_free(list);
  return has;
}

static void outage(bool keep) {
  static struct crowd_member a, b;
  weft_store_t *of_a = store_kind_open(), *of_b = store_kind_open(), *probe = store_kind_open();
  store_agent_open(&a, "a", of_a);
  store_agent_open(&b, "b", of_b);
  store_agent_publish(&a);
  store_agent_publish(&b);
  weft_peer_t peer = store_agent_fetch(&b, "a"), back = store_agent_fetch(&a, "b");
  store_kind_stop();
  store_agent_allocate(&a); // waits
  static struct crowd_member c;
  weft_store_t *of_c = store_kind_open();
  store_agent_open(&c, "c", of_c);
  int err = weft_agent_publish(c.agent, NULL, NULL, 300);
  assert_true(err == WEFT_ERR_UNREACHABLE || err == WEFT_ERR_TIMEOUT);
  uint64_t until = clock_deadline_ms((STORE_AGENT_TTL_S + 1) * 1000); // leases would have run out by then
  while (!clock_passed(until)) {
    assert_int_equal(weft_agent_check(b.agent, peer), 0);
    assert_int_equal(weft_agent_check(a.agent, back), 0);
    poll(NULL, 0, 20);
  }
  store_kind_start(keep);
  assert_true(support_wait(has_key, probe, SUPPORT_DEADLINE_MS));
  crowd_await(&b, UPDATED, "a", 1);
  assert_int_equal(store_agent_count_regions(&b, peer), 1);
  assert_true(store_agent_fetch(&b, "a") == peer);
  store_agent_publish(&c);
  store_agent_fetch(&a, "c");
  weft_region_t region = store_agent_allocate(&a); // and changes come through as before
  crowd_await(&b, UPDATED, "a", 2);
  assert_int_equal(weft_agent_deregister(a.agent, region), 0);
  crowd_await(&b, UPDATED, "a", 3);
  assert_int_equal(crowd_count(&b, LEFT, NULL) + crowd_count(&b, LOST, NULL), 0);
  assert_int_equal(crowd_count(&a, LEFT, NULL) + crowd_count(&a, LOST, NULL), 0);
  crowd_close(&a);
  crowd_await(&b, LEFT, "a", 1);
  crowd_close(&b);
  crowd_close(&c);
  store_kind_close(of_a);
  store_kind_close(of_b);
  store_kind_close(of_c);
  store_kind_close(probe);
}

// The store is back, empty, and one agent does not find it for a while: the other waits for its key.
void store_outage_late_return(void **state) {
  (void)state;
  if (!store_kind_url() || store_kind_keeps()) // one kind that comes back empty suffices
    return;
  static struct crowd_member late, watcher;
  struct support_relay *relay = support_relay_start(store_kind_port());
  assert_non_null(relay);
  char url[64];
  snprintf(url, sizeof url, "http://127.0.0.1:%u", support_relay_port(relay));
  struct weft_store_options store = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *through = NULL, *direct = store_kind_open();
  store.endpoints = url;
  store.connect_timeout_ms = 500;
  assert_int_equal(weft_store_open(&through, &store), 0);
  struct weft_agent_options options = crowd_options("a");
  options.store = through;
  options.prefix = store_agent_prefix;
  options.lease_ttl_s = 30; // no matter how slow this machine is
  crowd_open(&late, &options);
  options.name = "watcher";
  options.store = direct;
  crowd_open(&watcher, &options);
  store_agent_publish(&late);
  weft_peer_t peer = store_agent_fetch(&watcher, "a");
  support_relay_refuse(relay, true);
  support_relay_cut(relay);
  store_kind_stop();
  store_kind_start(false);
  store_agent_publish(&watcher); // it has found the store
  uint64_t until = clock_deadline_ms(2000);
  while (!clock_passed(until)) {
    assert_int_equal(weft_agent_check(watcher.agent, peer), 0);
    poll(NULL, 0, 20);
  }
  assert_false(has_key(direct));
  support_relay_refuse(relay, false);
  assert_true(support_wait(has_key, direct, SUPPORT_DEADLINE_MS));
  store_agent_allocate(&late);
  crowd_await(&watcher, UPDATED, "a", 1);
  assert_int_equal(crowd_count(&watcher, LEFT, NULL) + crowd_count(&watcher, LOST, NULL), 0);
  crowd_close(&watcher);
  crowd_close(&late);
  weft_store_close(through);
  support_relay_stop(relay);
  store_kind_close(direct);
}

// --- a store that takes calls and answers none ---

enum { PATIENT_MS = 8000 };

struct patient {
  weft_agent_t *agent;
  int err;
  _Atomic bool ended;
};

static void *publish_patiently(void *arg) {
  struct patient *patient = arg;
  patient->err = weft_agent_publish(patient->agent, NULL, NULL, PATIENT_MS);
  atomic_store(&patient->ended, true);
  return NULL;
}

static int listen_silently(char *url, size_t size) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
  assert_int_equal(listen(fd, 16), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
  snprintf(url, size, "http://127.0.0.1:%u", ntohs(address.sin_port));
  return fd;
}

// A call with little time waits no longer than that for a store, though another call waits for an answer of it.
void store_outage_silent(void **state) {
  (void)state;
  if (store_kind_url()) // one kind suffices: it is none of them
    return;
  static struct crowd_member member;
  char url[64];
  struct weft_store_options store = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *silent = NULL;
  int listener = listen_silently(url, sizeof url);
  store.endpoints = url;
  store.request_timeout_ms = PATIENT_MS;
  assert_int_equal(weft_store_open(&silent, &store), 0);
  store_agent_open(&member, "a", silent);
  struct patient patient = {.agent = member.agent};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, publish_patiently, &patient), 0);
  struct pollfd called = {.fd = listener, .events = POLLIN};
  assert_int_equal(poll(&called, 1, SUPPORT_DEADLINE_MS), 1);
  weft_peer_t peer;
  int published = weft_agent_publish(member.agent, "label", NULL, 100);
  int fetched = weft_agent_fetch(member.agent, "b", NULL, 100, &peer);
  int unpublished = weft_agent_unpublish(member.agent, "label", 100);
  bool in_time = !atomic_load(&patient.ended);
  pthread_join(thread, NULL);
  assert_true(in_time);
  assert_int_equal(published, WEFT_ERR_TIMEOUT);
  assert_int_equal(fetched, WEFT_ERR_TIMEOUT);
  assert_int_equal(unpublished, WEFT_ERR_TIMEOUT);
  assert_int_equal(patient.err, WEFT_ERR_TIMEOUT);
  crowd_close(&member);
  weft_store_close(silent);
  close(listener);
}

void store_outage_empty(void **state) {
  (void)state;
  if (store_kind_url())
    outage(false);
}

void store_outage_kept(void **state) {
  (void)state;
  if (store_kind_url() && store_kind_keeps())
    outage(true);
}
