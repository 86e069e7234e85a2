// Options that weft_agent_open() refuses.
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weft/weft.h>

#include "cmocka_all.h"

static void assert_refused(int err, const char *says) {
  assert_int_equal(err, WEFT_ERR_INVALID);
  if (!strstr(weft_last_error(), says))
    fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), says);
}

static void without_options(void **state) {
  (void)state;
  weft_agent_t *agent = NULL;
  assert_refused(weft_agent_open(&agent, NULL),
                 "weft_agent_open: options is NULL, but an agent needs a name: pass a struct weft_agent_options that "
                 "was initialised by WEFT_AGENT_OPTIONS_INIT and has a name");
  assert_null(agent);
}

static void without_a_name(void **state) {
  (void)state;
  weft_agent_t *agent = NULL;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  assert_refused(weft_agent_open(&agent, &options), "set weft_agent_options.name");
  options.name = "";
  assert_refused(weft_agent_open(&agent, &options), "set weft_agent_options.name");
  assert_null(agent);
}

// An agent that loads the metadata of another does not accept a name with control characters.
static void with_a_name_that_no_peer_takes(void **state) {
  (void)state;
  static const char controls[] = {'\x01', '\n', '\x1F', '\x7F'};
  for (size_t i = 0; i < sizeof controls; i++) {
    weft_agent_t *agent = NULL;
    const char name[] = {'a', controls[i], '\0'};
    struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
    options.name = name;
    assert_refused(weft_agent_open(&agent, &options), "byte 1 of the name is a control character");
    assert_null(agent);
  }
}

static void without_a_place_for_the_handle(void **state) {
  (void)state;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.name = "somebody";
  assert_refused(weft_agent_open(NULL, &options), "weft_agent_open: agent is NULL: pass a place for the handle");
}

// A transport that finds no descriptor is not unsupported: it works where there are more.
static void without_descriptors(void **state) {
  (void)state;
  weft_agent_t *agent = NULL;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  struct rlimit before, less;
  options.name = "somebody";
  options.transports = "shm,file";
  int rc = weft_agent_open(&agent, &options); // what opens libraries and files once has done so
  if (rc == WEFT_ERR_UNSUPPORTED)
    skip(); // as valgrind has no pidfd_open
  assert_int_equal(rc, 0);
  weft_agent_close(agent);
  int lowest = dup(STDERR_FILENO);
  close(lowest);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  less = before;
  rc = WEFT_ERR_LIMIT;
  for (int more = 0; rc == WEFT_ERR_LIMIT && more < 100; more++) {
    less.rlim_cur = (rlim_t)(lowest + more);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    rc = weft_agent_open(&agent, &options);
  }
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  if (rc != 0)
    fail_msg("with %d descriptors: %s", (int)less.rlim_cur - lowest, weft_last_error());
  weft_agent_close(agent);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_options),
      cmocka_unit_test(without_a_name),
      cmocka_unit_test(with_a_name_that_no_peer_takes),
      cmocka_unit_test(without_a_place_for_the_handle),
      cmocka_unit_test(without_descriptors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
