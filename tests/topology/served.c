// How the plug-in for transports uses a choice of NICs: for GPUs, and for processors if a process has no GPU.
#include "cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "base/affinity.h"
#include "topology/served/served.h"
#include "topology/support/hosts.h"

static void serves(const struct topology_choice *choice, const char *cpus, const char *gpu, const char *nics,
                   const char *why) {
  const char *gpus[] = {gpu};
  struct topology_ask ask = {.gpus = gpus, .num_gpus = gpu ? 1 : 0};
  struct topology_served served;
  assert_true(affinity_parse(cpus, &ask.allowed));
  topology_served_by(choice, &ask, &served);
  assert_string_equal(served.nics, nics);
  assert_string_equal(served.why, why);
}

// Nodes of p6_b200: 0-47,96-143 and 48-95,144-191.
static void a_process_of_one_node_gets_the_nics_there(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p6_b200", "", NULL);
  serves(choice, "3,100-110", NULL, "rdmap79s0,rdmap80s0,rdmap96s0,rdmap97s0",
         "those at NUMA node 0, on which this process runs: rdmap79s0, rdmap80s0, rdmap96s0, rdmap97s0");
  serves(choice, "48", NULL, "rdmap113s0,rdmap114s0,rdmap132s0,rdmap133s0",
         "those at NUMA node 1, on which this process runs: rdmap113s0, rdmap114s0, rdmap132s0, rdmap133s0");
  topology_choice_free(choice);
}

// What manages NVSwitches is left out.
static void one_of_several_nodes_gets_those_that_can_be_used(void **state) {
  (void)state;
  static const char all[] = "rdmap79s0,rdmap80s0,rdmap96s0,rdmap97s0,rdmap113s0,rdmap114s0,rdmap132s0,rdmap133s0";
  struct topology_choice *choice = host_choose("p6_b200", "", NULL);
  static const char *const cpus[] = {"47-48", "0-191", "500", ""};
  for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
    struct topology_ask ask = {.num_gpus = 0};
    struct topology_served served;
    assert_true(affinity_parse(cpus[i], &ask.allowed));
    topology_served_by(choice, &ask, &served);
    assert_string_equal(served.nics, all);
    assert_non_null(strstr(served.why, "those that can be used"));
  }
  topology_choice_free(choice);
}

static void where_all_are_alike_nothing_is_wished(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p4d", "", NULL);
  serves(choice, "0-95", NULL, "", "none is nearer than another, or better");
  serves(choice, "0", NULL, "rdmap16s27,rdmap32s27",
         "those at NUMA node 0, on which this process runs: rdmap16s27, rdmap32s27");
  topology_choice_free(choice);
}

static void a_gpu_goes_before_processors_unless_it_is_unknown(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p4d", "", NULL);
  serves(choice, "0", "00000000:90:1C.0", "rdmap144s27",
         "for the GPU at 0000:90:1c.0 rdmap144s27: below the same host bridge (PHB); serves GPU 5 too");
  serves(choice, "0", "0000:ff:00.0", "rdmap16s27,rdmap32s27",
         "those at NUMA node 0, on which this process runs: rdmap16s27, rdmap32s27");
  topology_choice_free(choice);
}

static void less_than_two_leave_nothing_to_choose(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p4d", "rdmap16s27", NULL);
  serves(choice, "0", choice->gpus[0].address, "", "one NIC with RDMA can be used");
  assert_int_equal(topology_assign(choice, "^rdmap16s27,rdmap32s27,rdmap144s27,rdmap160s27"), 0);
  serves(choice, "0", choice->gpus[0].address, "", "no NIC with RDMA can be used");
  topology_choice_free(choice);
}

static void what_cannot_be_opened_serves_nobody(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p4d", "", NULL);
  assert_int_equal(topology_keep_openable(choice, "rdmap32s27,rdmap160s27,rxe0,"), 0);
  host_serves(choice, "0:rdmap32s27 1:rdmap32s27 2:rdmap32s27 3:rdmap32s27 "
                      "4:rdmap160s27 5:rdmap160s27 6:rdmap160s27 7:rdmap160s27");
  serves(choice, "0", choice->gpus[0].address, "rdmap32s27",
         "for the GPU at 0000:10:1c.0 rdmap32s27: at the same NUMA node (NODE); serves GPU 1, 2, 3 too");
  topology_choice_free(choice);
}

static void a_list_without_room_is_none(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p6_b300", "", NULL);
  struct topology_ask ask = {.num_gpus = 0};
  struct topology_served served;
  for (size_t n = 0; n < choice->num_nics; n++)
    if (*choice->nics[n].rdma)
      memset(choice->nics[n].rdma, 'a' + (int)n % 26, TOPOLOGY_NAME - 1);
  topology_served_by(choice, &ask, &served); // 16 names of 31 fit
  assert_int_equal(strlen(served.nics), 16 * TOPOLOGY_NAME - 1);
  assert_non_null(strstr(served.why, "those that can be used: 16"));
  topology_choice_free(choice);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_process_of_one_node_gets_the_nics_there),
      cmocka_unit_test(one_of_several_nodes_gets_those_that_can_be_used),
      cmocka_unit_test(where_all_are_alike_nothing_is_wished),
      cmocka_unit_test(a_gpu_goes_before_processors_unless_it_is_unknown),
      cmocka_unit_test(less_than_two_leave_nothing_to_choose),
      cmocka_unit_test(what_cannot_be_opened_serves_nobody),
      cmocka_unit_test(a_list_without_room_is_none),
  };
  return cmocka_run_group_tests_name("NICs for a process", tests, NULL, NULL);
}
