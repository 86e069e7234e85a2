// Posts a prepared transfer of one descriptor as often as the argument says; instructions.py counts the instructions.
// The transport is the tests' own (valgrind does not know pidfd_open, which shm needs). Any thread may post or, with
// "turn" as the last argument, only the one that has the worker's turn.
#include <stdio.h>
#include <stdlib.h>

#include "cmocka_all.h"

#include "agent/support/pair.h"
#include "support/loop.h"

static long rounds;
static const struct transport *more[2] = {&transport_loop_free, NULL};

static void posts(void **state) {
  (void)state;
  struct pair pair;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  pair_open(&pair, "", more, &options);
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 8, NULL);
  for (long i = 0; i < rounds; i++) {
    assert_int_equal(weft_transfer_post(transfer), 0);
    assert_int_equal(weft_transfer_poll(transfer), 0);
  }
  pair_free(transfer);
  pair_close(&pair);
}

int main(int argc, char **argv) {
  rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
  if (argc > 2)
    more[0] = &transport_loop;
  const struct CMUnitTest tests[] = {cmocka_unit_test(posts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
