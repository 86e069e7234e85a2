// The NICs that UCX is configured with: the choice of the layers above, unless the user's own settings name others.
#include "cmocka_all.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/support/ucx_config.h"
#include "transport/ucx/ucx.h"

// NET_DEVICES as UCX would use it, with a comma behind.
static void devices(const char *device, const char *const *settings, char out[1024]) {
  struct transport_options options = {.size = sizeof options, .device = device, .settings = settings};
  ucx_config_value(&options, "UCX_NET_DEVICES", out, 1023);
  strcat(out, ",");
}

static void the_wish_leaves_the_interfaces(void **state) {
  (void)state;
  static const char *const wish[] = {"nics=mlx5_3,mlx5_4", NULL};
  char list[1024];
  devices(NULL, wish, list);
  assert_int_equal(strncmp(list, "mlx5_3:1,mlx5_4:1,", 18), 0);
  assert_non_null(strstr(list, ",lo,"));
  devices(NULL, NULL, list);
  assert_string_equal(list, "all,");
}

static void what_was_said_goes_before(void **state) {
  (void)state;
  static const char *const wish[] = {"nics=mlx5_3", NULL};
  static const char *const both[] = {"NET_DEVICES=mlx5_0:1", "nics=mlx5_3", NULL};
  char list[1024];
  setenv("UCX_NET_DEVICES", "mlx5_1:1", 1);
  devices(NULL, wish, list);
  unsetenv("UCX_NET_DEVICES");
  assert_string_equal(list, "mlx5_1:1,");
  devices(NULL, both, list);
  assert_string_equal(list, "mlx5_0:1,");
  devices("lo", wish, list);
  assert_string_equal(list, "lo,");
}

// A list of names that does not fit would be another one.
static void too_long_a_wish_is_none(void **state) {
  (void)state;
  static char wish[8000] = "nics=";
  for (size_t i = strlen(wish); i < sizeof wish - 8; i += 7)
    memcpy(wish + i, "mlx5_1,", 8);
  const char *const settings[] = {wish, NULL};
  char list[1024];
  devices(NULL, settings, list);
  assert_string_equal(list, "all,");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_wish_leaves_the_interfaces),
      cmocka_unit_test(what_was_said_goes_before),
      cmocka_unit_test(too_long_a_wish_is_none),
  };
  unsetenv("UCX_NET_DEVICES");
  return cmocka_run_group_tests_name("NICs of UCX", tests, NULL, NULL);
}
