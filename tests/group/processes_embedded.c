// 64 processes claim 64 ranks at once on the embedded server.
#include "cmocka_all.h"
#include <stdio.h>
#include <unistd.h>
#include <weft/store.h>

#include "base/time/clock.h"
#include "group/support/processes.h"

// The embedded server, in a process of its own.
static void serve(int hear_fd, int say, const void *arg) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.flags = WEFT_STORE_SERVER_INSECURE;
  weft_store_server_t *server;
  char url[64] = "";
  (void)arg;
  if (weft_store_server_start(&server, &options) != 0) {
    fprintf(stderr, "server: %s\n", weft_last_error());
    _exit(1);
  }
  snprintf(url, sizeof url, "%s", weft_store_server_url(server));
  if (write(say, url, sizeof url) != sizeof url)
    _exit(1);
  processes_await_end(hear_fd);
  weft_store_server_stop(server);
}

static void sixty_four_processes_claim_without_duplicate_or_gap(void **state) {
  char url[64];
  (void)state;
  struct child server = processes_start(serve, NULL);
  processes_hear(&server, url, sizeof url, clock_deadline_ms(PROCESSES_DEADLINE_MS), "the server");
  processes_claim_all(url);
  processes_expect_empty(url);
  close(server.say);
  processes_end(&server);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sixty_four_processes_claim_without_duplicate_or_gap)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
