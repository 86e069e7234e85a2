// Workers in separate processes on an embedded server, which runs in its own process or in the first worker.
#include "cmocka_all.h"
#include <stdio.h>
#include <unistd.h>
#include <weft/store.h>

#include "base/time/clock.h"
#include "group/support/processes.h"
#include "meet/processes.h"

static struct child server;
static char url[64];

static void serve(int hear, int say, const void *arg) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.flags = WEFT_STORE_SERVER_INSECURE;
  weft_store_server_t *started;
  char told[64] = "";
  (void)arg;
  if (weft_store_server_start(&started, &options) != 0) {
    fprintf(stderr, "server: %s\n", weft_last_error());
    _exit(1);
  }
  snprintf(told, sizeof told, "%s", weft_store_server_url(started));
  if (write(say, told, sizeof told) != sizeof told)
    _exit(1);
  processes_await_end(hear);
  weft_store_server_stop(started);
}

static int start(void **state) {
  (void)state;
  server = processes_start(serve, NULL);
  processes_hear(&server, url, sizeof url, clock_deadline_ms(PROCESSES_DEADLINE_MS), "the server");
  return 0;
}

static int end(void **state) {
  (void)state;
  close(server.say);
  processes_end(&server);
  return 0;
}

static void sixty_four_get_ranks_without_gap_or_duplicate(void **state) {
  (void)state;
  meet_many(url);
}

static void a_killed_process_is_named_and_leaves_nothing(void **state) {
  (void)state;
  meet_kills(url);
}

static void a_run_that_was_killed_is_replaced(void **state) {
  (void)state;
  meet_restarts(url);
}

static void the_worker_with_the_store_is_named_too(void **state) {
  (void)state;
  meet_kill_of_the_store();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sixty_four_get_ranks_without_gap_or_duplicate),
      cmocka_unit_test(a_killed_process_is_named_and_leaves_nothing),
      cmocka_unit_test(a_run_that_was_killed_is_replaced),
      cmocka_unit_test(the_worker_with_the_store_is_named_too),
  };
  return cmocka_run_group_tests(tests, start, end);
}
