// An agent starts to serve its metrics at a name whose address lookup takes long. Its other work goes on meanwhile.
#include <pthread.h>
#include <stdatomic.h>

#include "agent/agent.h"
#include "cmocka_all.h"
#include "support/wait.h"

static _Atomic bool looks, found;

static bool has_come(void *arg) {
  return atomic_load((_Atomic bool *)arg);
}

int __real_endpoint_listen(const char *text, int *fd, uint16_t *port);
int __wrap_endpoint_listen(const char *text, int *fd, uint16_t *port);

int __wrap_endpoint_listen(const char *text, int *fd, uint16_t *port) {
  atomic_store(&looks, true);
  support_wait(has_come, &found, SUPPORT_DEADLINE_MS);
  return __real_endpoint_listen(text, fd, port);
}

static void *serve(void *arg) {
  return (void *)(intptr_t)weft_agent_serve_metrics(arg, "127.0.0.1:0", NULL);
}

static bool can_housekeep(void *arg) {
  weft_agent_t *agent = arg;
  if (pthread_mutex_trylock(&agent->housekeeping) != 0)
    return false;
  pthread_mutex_unlock(&agent->housekeeping);
  return true;
}

static void housekeeping_goes_on(void **state) {
  (void)state;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  weft_agent_t *agent;
  pthread_t thread;
  void *rc = NULL;
  options.name = "a";
  options.transports = "shm";
  assert_int_equal(weft_agent_open(&agent, &options), 0);
  assert_int_equal(pthread_create(&thread, NULL, serve, agent), 0);
  bool looked = support_wait(has_come, &looks, SUPPORT_DEADLINE_MS / 4);
  bool housekeeping_free = looked && support_wait(can_housekeep, agent, SUPPORT_DEADLINE_MS / 4);
  int again = housekeeping_free ? weft_agent_serve_metrics(agent, "127.0.0.1:0", NULL) : 0;
  atomic_store(&found, true);
  pthread_join(thread, &rc);
  weft_agent_close(agent);
  assert_true(looked);
  assert_true(housekeeping_free);
  assert_int_equal(again, WEFT_ERR_EXISTS);
  assert_int_equal((intptr_t)rc, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(housekeeping_goes_on)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
