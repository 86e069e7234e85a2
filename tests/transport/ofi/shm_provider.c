// libfabric's provider shm ends the process when an endpoint is closed during an operation, so the transport refuses
// it.
#include "cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "transport/transport.h"

static const struct transport *transport;

static void refused(const char *const *settings) {
  struct transport_options options = {.size = sizeof options, .settings = settings};
  struct transport_worker *worker = NULL;
  int rc = transport->open(&options, &worker);
  if (rc == 0) {
    transport->close(worker);
    fail_msg("a worker opened over the provider shm");
  }
  assert_int_equal(rc, WEFT_ERR_UNSUPPORTED);
  const char *said = weft_last_error();
  if (strstr(said, "has no provider")) { // such a libfabric was built without it
    print_message("%s\n", said);
    skip();
  }
  assert_non_null(strstr(said, "Weft does not use its provider shm"));
  assert_non_null(strstr(said, "ends the process"));
}

static void it_is_refused_by_its_name(void **state) {
  (void)state;
  static const char *const settings[] = {"provider=shm", NULL};
  refused(settings);
}

static void another_is_not(void **state) {
  (void)state;
  static const char *const settings[] = {"provider=tcp", NULL};
  struct transport_options options = {.size = sizeof options, .settings = settings};
  struct transport_worker *worker = NULL;
  assert_int_equal(transport->open(&options, &worker), 0);
  transport->close(worker);
}

int main(void) {
  if (transport_find("ofi", &transport) != 0) {
    printf("skipped: %s\n", weft_last_error());
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_refused_by_its_name),
      cmocka_unit_test(another_is_not),
  };
  return cmocka_run_group_tests_name("libfabric's shm", tests, NULL, NULL);
}
