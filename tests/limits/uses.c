// Which libraries' choices are reported, and when TCP is worth a warning.
#include "cmocka_all.h"
#include <stdlib.h>
#include <string.h>

#include "limits/uses.h"

static const struct limits_route ofi_far = {.to.host = "another", .transport = "ofi"};
static const struct limits_route ucx_far = {.to.host = "another", .transport = "ucx"};

static bool warns(const char *peer_uses, const struct limits_route *route) {
  char text[768] = "";
  bool does = limits_uses_warning(peer_uses, route, text, sizeof text);
  assert_true(does == (text[0] != '\0'));
  return does;
}

static int forget_environment(void **state) {
  (void)state;
  return unsetenv("FI_PROVIDER") | unsetenv("UCX_TLS") | unsetenv("UCX_NET_DEVICES");
}

static void tcp_to_another_host_is_a_warning(void **state) {
  (void)state;
  char text[768] = "";
  assert_true(limits_uses_warning("ofi tcp;ofi_rxm eth0; ucx rc_mlx5 mlx5_0:1", &ofi_far, text, sizeof text));
  assert_non_null(strstr(text, "another host"));
  assert_non_null(strstr(text, "\"tcp;ofi_rxm eth0\""));
  assert_non_null(strstr(text, "`fi_info`"));
  assert_non_null(strstr(text, "FI_PROVIDER=tcp"));
  assert_true(limits_uses_warning("ofi verbs;ofi_rxm mlx5_0; ucx tcp eth0, tcp eth1", &ucx_far, text, sizeof text));
  assert_non_null(strstr(text, "`ucx_info -d`"));
  assert_non_null(strstr(text, "UCX_TLS=tcp"));
}

static void rdma_is_none(void **state) {
  (void)state;
  assert_false(warns("ofi verbs;ofi_rxm mlx5_0; ucx tcp eth0", &ofi_far));
  assert_false(warns("ofi tcp eth0; ucx rc_mlx5 mlx5_0:1, tcp eth0", &ucx_far));
  assert_false(warns("ofi efa rdmap0s31-rdm", &ofi_far));
  assert_false(warns("", &ofi_far));
  assert_false(warns("ucx tcp eth0", &ofi_far));
}

static void only_gpus_and_other_hosts_count(void **state) {
  (void)state;
  struct limits_route here = {.transport = "ofi"};
  assert_false(warns("ofi tcp lo", &here));
  here.from.memory = LIMITS_CUDA;
  assert_true(warns("ofi tcp lo", &here));
  here = (struct limits_route){.from.host = "one", .to.host = "one", .transport = "ofi"};
  assert_false(warns("ofi tcp eth0", &here));
  assert_true(warns("ucx tcp eth0, cuda_copy cuda",
                    &(struct limits_route){.to = {.memory = LIMITS_CUDA, .host = "another"}, .transport = "ucx"}));
}

static void a_user_who_names_tcp_gets_no_warning(void **state) {
  (void)state;
  setenv("FI_PROVIDER", "shm,tcp", 1);
  assert_false(warns("ofi tcp eth0", &ofi_far));
  assert_true(warns("ucx tcp eth0", &ucx_far));
  setenv("FI_PROVIDER", "^tcp_old", 1);
  assert_true(warns("ofi tcp eth0", &ofi_far));
  setenv("UCX_TLS", "rc,tcp", 1);
  assert_false(warns("ucx tcp eth0", &ucx_far));
  setenv("UCX_TLS", "all", 1);
  assert_true(warns("ucx tcp eth0", &ucx_far));
  setenv("UCX_NET_DEVICES", "eth0", 1);
  assert_false(warns("ucx tcp eth0", &ucx_far));
}

static void each_transport_is_noted_once_and_warned_of_once(void **state) {
  (void)state;
  struct limits_uses uses = {0};
  const struct limits_route shm = {.to.host = "another", .transport = "shm"};
  limits_uses_note(&uses, "ofi verbs;ofi_rxm mlx5_0; ucx tcp eth0", &shm);
  assert_string_equal(uses.text, "");
  limits_uses_note(&uses, "ofi verbs;ofi_rxm mlx5_0; ucx tcp eth0", &ofi_far);
  limits_uses_note(&uses, "ofi verbs;ofi_rxm mlx5_0; ucx tcp eth0", &ofi_far);
  assert_string_equal(uses.text, "ofi verbs;ofi_rxm mlx5_0");
  assert_false(uses.warned);
  limits_uses_note(&uses, "ofi verbs;ofi_rxm mlx5_0; ucx tcp eth0", &ucx_far);
  assert_string_equal(uses.text, "ofi verbs;ofi_rxm mlx5_0; ucx tcp eth0");
  assert_true(uses.warned);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(tcp_to_another_host_is_a_warning, forget_environment),
      cmocka_unit_test_setup(rdma_is_none, forget_environment),
      cmocka_unit_test_setup(only_gpus_and_other_hosts_count, forget_environment),
      cmocka_unit_test_setup(a_user_who_names_tcp_gets_no_warning, forget_environment),
      cmocka_unit_test_setup(each_transport_is_noted_once_and_warned_of_once, forget_environment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
