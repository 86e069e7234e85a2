// Settings for other libraries, of the machines of host_*.xml and of made-up routes.
#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temporary.h"
#include "topology/served/exports.h"
#include "topology/support/hosts.h"

static struct topology_export exports[TOPOLOGY_EXPORTS];
static size_t num_exports;

static void make_exports(const struct topology_choice *choice, bool ranked, int gpu, const char *interface) {
  struct topology_exports_facts facts = {.choice = choice, .ranked = ranked, .gpu = gpu};
  snprintf(facts.interface, sizeof facts.interface, "%s", interface);
  num_exports = topology_exports(&facts, exports);
}

static const struct topology_export *export_named(const char *name) {
  for (size_t i = 0; i < num_exports; i++)
    if (strcmp(exports[i].name, name) == 0)
      return &exports[i];
  fail_msg("nothing is said of %s", name);
  return NULL;
}

static void is(const char *name, const char *value) {
  const struct topology_export *found = export_named(name);
  assert_true(found->set);
  assert_string_equal(found->value, value);
  assert_true(*found->why);
}

static void is_left_out(const char *name, const char *why) {
  const struct topology_export *found = export_named(name);
  assert_false(found->set);
  assert_string_equal(found->value, "");
  assert_non_null(strstr(found->why, why));
}

static void a_rank_has_its_own_nics_and_the_host_s_lists(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("10_nics", "", NULL);
  make_exports(choice, true, 6, "eth9");
  is("UCX_NET_DEVICES", "mlx5_7:1");
  is("FI_VERBS_DEVICE_NAME", "mlx5_7");
  is("WEFT_OFI_NICS", "mlx5_7");
  static const char all[] = "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_5:1,mlx5_6:1,mlx5_7:1,mlx5_8:1";
  char exact[sizeof all + 1];
  snprintf(exact, sizeof exact, "=%s", all);
  is("NCCL_IB_HCA", exact);
  is("NVSHMEM_HCA_LIST", all);
  is("NCCL_SOCKET_IFNAME", "=eth9");
  is("GLOO_SOCKET_IFNAME", "eth9");
  is("FI_TCP_IFACE", "eth9");
  is_left_out("NCCL_IB_DISABLE", "nothing on this host rules out");
  is_left_out("NVSHMEM_REMOTE_TRANSPORT", "its default");
  is_left_out("CUDA_VISIBLE_DEVICES", "it is not changed");
  topology_choice_free(choice);
}

static void a_host_without_a_rank_has_all_that_serve(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("4_nics", "", NULL);
  make_exports(choice, false, -1, "");
  is("UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1");
  is_left_out("FI_VERBS_DEVICE_NAME", "takes a --rank");
  is_left_out("WEFT_OFI_NICS", "of one rank");
  is_left_out("NCCL_SOCKET_IFNAME", "no default route");
  is_left_out("GLOO_SOCKET_IFNAME", "no default route");
  topology_choice_free(choice);
}

static void several_nics_are_all_named_and_no_single_one(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("16_nics", "", NULL);
  make_exports(choice, true, 1, "eth0");
  is("UCX_NET_DEVICES", "mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1");
  is_left_out("FI_VERBS_DEVICE_NAME", "none or several");
  topology_choice_free(choice);
}

static void a_name_that_begins_another_s_is_not_given_as_a_prefix(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("10_nics", "", NULL);
  strcpy(choice->nics[2].rdma, "mlx5_10");
  make_exports(choice, true, 1, "eth0");
  is("UCX_NET_DEVICES", "mlx5_1:1");
  is_left_out("FI_VERBS_DEVICE_NAME", "another name also begins with mlx5_1");
  topology_choice_free(choice);
}

static void without_rdma_the_route_decides(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("no_nic", "", NULL);
  make_exports(choice, true, 0, "bond0");
  is("UCX_NET_DEVICES", "bond0");
  is_left_out("NCCL_IB_HCA", "no RDMA device");
  is_left_out("NVSHMEM_HCA_LIST", "no RDMA device");
  is_left_out("WEFT_OFI_NICS", "no RDMA device");
  make_exports(choice, true, 0, "");
  is_left_out("UCX_NET_DEVICES", "no default route");
  topology_choice_free(choice);
}

static void elastic_fabric_adapters_are_libfabric_s(void **state) {
  (void)state;
  static const char *const machines[] = {"p4d", "p5en", "p6_b200", "p6_b300"};
  static const char *const of_fourth[] = {"rdmap144s27:1,ens32", "rdmap135s0:1,rdmap137s0:1,ens32",
                                          "rdmap113s0:1,ens32", "rdmap146s0:1,rdmap147s0:1,ens32"};
  for (int m = 0; m < 4; m++) {
    struct topology_choice *choice = host_choose(machines[m], "", NULL);
    make_exports(choice, true, 4, "ens32");
    is("UCX_NET_DEVICES", of_fourth[m]);
    is("FI_PROVIDER", "efa");
    is("NVSHMEM_REMOTE_TRANSPORT", "libfabric");
    is("NVSHMEM_LIBFABRIC_PROVIDER", "efa");
    is("NCCL_IB_DISABLE", "1");
    is("NCCL_SOCKET_IFNAME", "=ens32");
    is("FI_TCP_IFACE", "ens32");
    is_left_out("NCCL_IB_HCA", "libfabric rather than verbs");
    is_left_out("NVSHMEM_HCA_LIST", "libfabric rather than verbs");
    is_left_out("FI_VERBS_DEVICE_NAME", "libfabric rather than verbs");
    make_exports(choice, true, 4, "");
    is_left_out("UCX_NET_DEVICES", "no default route");
    topology_choice_free(choice);
  }
}

static void all_ranks_have_all_adapters(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p6_b200", "", NULL);
  make_exports(choice, false, -1, "enp71s0");
  is("UCX_NET_DEVICES", "rdmap79s0:1,rdmap80s0:1,rdmap96s0:1,rdmap97s0:1,rdmap113s0:1,rdmap114s0:1,rdmap132s0:1,"
                        "rdmap133s0:1,enp71s0");
  topology_choice_free(choice);
  choice = host_choose("p6_b200", "ibp115s0f0", NULL); // who names it gets it
  make_exports(choice, true, 0, "enp71s0");
  is("NCCL_IB_HCA", "=ibp115s0f0:1");
  is_left_out("NCCL_IB_DISABLE", "nothing on this host rules out");
  is_left_out("FI_PROVIDER", "knows best");
  topology_choice_free(choice);
}

static void a_transport_that_cannot_work_is_taken_out(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("no_nic", "", NULL);
  struct topology_exports_facts facts = {.choice = choice, .gpu = -1};
  num_exports = topology_exports(&facts, exports);
  is_left_out("UCX_TLS", "nothing on this host rules one out");
  facts.cma_refused = true;
  num_exports = topology_exports(&facts, exports);
  is("UCX_TLS", "^cma");
  topology_choice_free(choice);
}

// The interface that is found when these are the files, "" when none is.
static const char *route_of(const char *four, const char *six) {
  static char interface[TOPOLOGY_NAME];
  char root[256], command[300], path[512];
  support_temporary(root, sizeof root, "weft-route");
  assert_non_null(mkdtemp(root));
  snprintf(command, sizeof command, "mkdir -p '%s/proc/net'", root);
  assert_int_equal(system(command), 0);
  const char *const texts[] = {four, six}, *const names[] = {"route", "ipv6_route"};
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/proc/net/%s", root, names[i]);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(texts[i], file);
    fclose(file);
  }
  bool found = topology_default_route(root, interface);
  assert_int_equal(found, *interface != '\0');
  snprintf(command, sizeof command, "rm -r '%s'", root);
  assert_int_equal(system(command), 0);
  return interface;
}

static void the_default_route_is_that_of_the_least_metric(void **state) {
  (void)state;
#define HEAD "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
#define SIX  "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 "
  assert_string_equal(route_of(HEAD "eth1\t00000000\t0102000A\t0003\t0\t0\t200\t00000000\t0\t0\t0\n"
                                    "eth2\t00000000\t0102000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
                                    "eth4\t00000000\t0102000A\t0003\t0\t0\t300\t00000000\t0\t0\t0\n"
                                    "eth3\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
                               ""),
                      "eth2");
  assert_string_equal(route_of(HEAD, SIX "00000400 00000003 00000000 00000003     eth6\n" SIX
                                         "ffffffff 00000001 00000000 00200200       lo\n"),
                      "eth6");
  assert_string_equal(route_of(HEAD "eth3\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n", ""), "");
  assert_string_equal(route_of("rubbish\n\n", "0 0\n"), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rank_has_its_own_nics_and_the_host_s_lists),
      cmocka_unit_test(a_host_without_a_rank_has_all_that_serve),
      cmocka_unit_test(several_nics_are_all_named_and_no_single_one),
      cmocka_unit_test(a_name_that_begins_another_s_is_not_given_as_a_prefix),
      cmocka_unit_test(without_rdma_the_route_decides),
      cmocka_unit_test(elastic_fabric_adapters_are_libfabric_s),
      cmocka_unit_test(all_ranks_have_all_adapters),
      cmocka_unit_test(a_transport_that_cannot_work_is_taken_out),
      cmocka_unit_test(the_default_route_is_that_of_the_least_metric),
  };
  return cmocka_run_group_tests_name("exports for other libraries", tests, NULL, NULL);
}
