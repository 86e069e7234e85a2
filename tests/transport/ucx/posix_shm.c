// UCX's POSIX shared memory is left out of the list TLS in the versions that it makes end the process, and in no other.
#include "cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "base/avoided.h"
#include "transport/support/ucx_config.h"
#include "transport/ucx/ucx.h"

static void every_name_that_stands_for_it_is_replaced(void **state) {
  (void)state;
  static const char *const lists[][2] = {
      {"all", "^posix"},
      {"tcp,all", "^posix"},
      {"posix,self", "sysv,self"},
      {"\\posix,self", "sysv,self"},
      {"posix,sysv,cma,tcp", "sysv,cma,tcp"},
      {"mm,self", "sysv,xpmem,self"},
      {"shm,self", "sysv,xpmem,knem,cma,self"},
      {"rc,sm,cuda_copy,shm", "rc,sysv,xpmem,knem,cma,cuda_copy"},
      {"tcp", "tcp"},
      {"rc_x,ud_x:aux,self", "rc_x,ud_x:aux,self"},
      {"^cma", "^cma,posix"},
      {"^posix", "^posix"},
      {"^sm,cuda_ipc", "^sm,cuda_ipc"},
  };
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    char out[128];
    assert_true(ucx_without_posix(lists[i][0], out, sizeof out));
    assert_string_equal(out, lists[i][1]);
  }
}

static void a_list_that_does_not_fit_is_none(void **state) {
  (void)state;
  char out[16];
  assert_true(ucx_without_posix("sysv,cma,self", out, sizeof out));
  assert_false(ucx_without_posix("shm,self", out, sizeof out));
  assert_false(ucx_without_posix("^cma,self,tcp", out, sizeof out));
  char name[200];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  char much[1024];
  assert_false(ucx_without_posix(name, much, sizeof much));
}

// The settings of this machine's UCX.
static void tls(const char *const *settings, char out[256]) {
  struct transport_options options = {.size = sizeof options, .settings = settings};
  ucx_config_value(&options, "UCX_TLS", out, 256);
}

static void a_ucx_of_these_versions_is_reported(void **state) {
  (void)state;
  static const char *const named[] = {"TLS=posix,self", NULL};
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  bool avoided = avoided_in(AVOIDED_UCX_POSIX, major, minor);
  char list[256];
  tls(named, list);
  assert_string_equal(list, avoided ? "sysv,self" : "posix,self");
  setenv("UCX_TLS", "all", 1);
  tls(NULL, list);
  unsetenv("UCX_TLS");
  assert_string_equal(list, avoided ? "^posix" : "all");
  tls(NULL, list);
  assert_string_equal(list, "^sm,cuda_ipc,rocm_ipc,ze_ipc");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_name_that_stands_for_it_is_replaced),
      cmocka_unit_test(a_list_that_does_not_fit_is_none),
      cmocka_unit_test(a_ucx_of_these_versions_is_reported),
  };
  return cmocka_run_group_tests_name("POSIX shared memory of UCX", tests, NULL, NULL);
}
