// Which NICs serve which GPU, on the machines of host_*.xml (see make_hosts.py).
#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/err.h>

#include "support/temporary.h"
#include "topology/support/hosts.h"

static void each_gpu_has_a_nic_of_its_switch(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("10_nics", "", NULL);
  assert_int_equal(choice->num_gpus, 8); // neither display nor NVSwitch
  assert_int_equal(choice->num_nics, 10);
  host_serves(choice, "0:mlx5_0 1:mlx5_1 2:mlx5_2 3:mlx5_3 4:mlx5_5 5:mlx5_6 6:mlx5_7 7:mlx5_8");
  assert_string_equal(choice->gpus[0].address, "0000:14:00.0");
  assert_int_equal(choice->gpus[0].distance, TOPOLOGY_PIX);
  assert_string_equal(choice->gpus[0].why, "mlx5_0: of 2 NICs behind the same PCIe switch (PIX), shared out evenly");
  assert_string_equal(host_nic(choice, "mlx5_4")->why, "it is on Ethernet, and the others are on InfiniBand");
  assert_false(host_nic(choice, "mlx5_4")->chosen);
  topology_choice_free(choice);
}

static void distances_are_those_of_the_buses(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("10_nics", "", NULL);
  static const char *const of_first[] = {"PIX", "PIX", "NODE", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS", "SYS"};
  for (size_t n = 0; n < 10; n++)
    assert_string_equal(topology_distance_name(topology_distance_of(choice, 0, n)), of_first[n]);
  topology_choice_free(choice);
  choice = host_choose("4_nics", "", NULL);
  assert_string_equal(topology_distance_name(topology_distance_of(choice, 0, 0)), "PXB");
  topology_choice_free(choice);
}

static void threads_belong_to_the_gpu_s_node(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("10_nics", "", NULL);
  assert_int_equal(choice->num_nodes, 2);
  assert_string_equal(choice->nodes[1].cpus, "4-7");
  for (size_t g = 0; g < 8; g++) {
    assert_int_equal(choice->gpus[g].numa_node, g / 4);
    assert_string_equal(choice->gpus[g].cpus, g < 4 ? "0-3" : "4-7");
  }
  topology_choice_free(choice);
}

static void two_gpus_share_the_one_nic_near_them(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("4_nics", "", NULL);
  host_serves(choice, "0:mlx5_0 1:mlx5_0 2:mlx5_1 3:mlx5_1 4:mlx5_2 5:mlx5_2 6:mlx5_3 7:mlx5_3");
  assert_string_equal(choice->gpus[1].why, "mlx5_0: reached through PCIe switches alone (PXB); serves GPU 0 too");
  topology_choice_free(choice);
}

static void equally_near_nics_are_shared_out_evenly(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("nics_at_processors", "", NULL);
  host_serves(choice, "0:mlx5_0 1:mlx5_1 2:mlx5_0 3:mlx5_1 4:mlx5_2 5:mlx5_2 6:mlx5_2 7:mlx5_2");
  assert_string_equal(host_nic(choice, "mlx5_3")->why, "its link is down");
  assert_string_equal(host_nic(choice, "eth0")->why, "it has no RDMA device, and others have");
  topology_choice_free(choice);
}

static void several_nics_for_each_gpu_are_all_used(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("16_nics", "", NULL);
  host_serves(choice, "0:mlx5_0,mlx5_1,mlx5_2,mlx5_3 1:mlx5_4,mlx5_5,mlx5_6,mlx5_7 "
                      "2:mlx5_8,mlx5_9,mlx5_10,mlx5_11 3:mlx5_12,mlx5_13,mlx5_14,mlx5_15");
  topology_choice_free(choice);
}

static void what_does_not_go_round_is_left_over(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("nics_at_processors", "mlx5_0,mlx5_1,mlx5_2,mlx5_3,eth0", NULL);
  host_serves(choice, "0:mlx5_0 1:mlx5_1 2:eth0 3:mlx5_0 4:mlx5_2 5:mlx5_3 6:mlx5_2 7:mlx5_3");
  topology_choice_free(choice);
  choice =
      host_choose("16_nics", "mlx5_0,mlx5_1,mlx5_5", NULL); // two for the first GPU's switch, none for the last ones'
  host_serves(choice, "0:mlx5_0 1:mlx5_5 2:mlx5_1 3:mlx5_0");
  topology_choice_free(choice);
}

static void a_host_without_nics_says_so(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("no_nic", "", NULL);
  host_serves(choice, "0:- 1:- 2:- 3:- 4:- 5:- 6:- 7:-");
  assert_string_equal(choice->gpus[7].why, "this host has no NIC");
  topology_choice_free(choice);
}

static void a_far_nic_is_better_than_none(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("far_nic", "", NULL);
  host_serves(choice, "0:mlx5_0");
  assert_int_equal(choice->gpus[0].distance, TOPOLOGY_SYS);
  assert_non_null(strstr(choice->gpus[0].why, "(SYS); none is nearer"));
  topology_choice_free(choice);
}

static void names_decide_where_they_are_given(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("10_nics", "mlx5_4,0000:98:00.0", NULL);
  host_serves(choice, "0:mlx5_4 1:mlx5_4 2:mlx5_4 3:mlx5_4 4:mlx5_5 5:mlx5_5 6:mlx5_5 7:mlx5_5");
  assert_string_equal(host_nic(choice, "mlx5_0")->why, "it is not in WEFT_NICS");
  topology_choice_free(choice);
  choice = host_choose("10_nics", "mlx5_4:1,ib5", NULL); // with its port; and by another of its names
  host_serves(choice, "0:mlx5_4 1:mlx5_4 2:mlx5_4 3:mlx5_4 4:mlx5_5 5:mlx5_5 6:mlx5_5 7:mlx5_5");
  topology_choice_free(choice);
}

static void leaving_out_is_possible_too(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("10_nics", "^mlx5_0", NULL);
  host_serves(choice, "0:mlx5_1 1:mlx5_1 2:mlx5_2 3:mlx5_3 4:mlx5_5 5:mlx5_6 6:mlx5_7 7:mlx5_8");
  assert_string_equal(host_nic(choice, "mlx5_0")->why, "WEFT_NICS leaves it out");
  topology_choice_free(choice);
}

static void a_link_that_is_down_is_used_when_it_is_named(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("nics_at_processors", "mlx5_3", NULL);
  host_serves(choice, "0:mlx5_3 1:mlx5_3 2:mlx5_3 3:mlx5_3 4:mlx5_3 5:mlx5_3 6:mlx5_3 7:mlx5_3");
  topology_choice_free(choice);
}

static void a_name_that_is_not_there_is_refused(void **state) {
  (void)state;
  setenv("HWLOC_XMLFILE", HOSTS "/host_far_nic.xml", 1);
  struct topology_choice *choice = NULL;
  assert_int_equal(topology_choose(&choice, &(struct topology_choice_options){.nics = "mlx5_1"}), WEFT_ERR_INVALID);
  assert_string_equal(weft_last_error(),
                      "WEFT_NICS names mlx5_1, which is not a NIC of this host; want some of mlx5_0");
  setenv("HWLOC_XMLFILE", HOSTS "/host_no_nic.xml", 1);
  assert_int_equal(topology_choose(&choice, &(struct topology_choice_options){.nics = "^eth0"}), WEFT_ERR_INVALID);
  assert_null(choice);
}

// Makes root/sys/class/infiniband/<rdma>/ports/1 and puts the values there.
static void write_port(const char *root, const char *rdma, const char *state, const char *rate) {
  char command[1024];
  snprintf(command, sizeof command,
           "cd '%s' && mkdir -p sys/class/infiniband/%s/ports/1 && cd sys/class/infiniband/%s/ports/1 && "
           "echo '%s' > state && echo '%s' > rate && echo Ethernet > link_layer",
           root, rdma, rdma, state, rate);
  assert_int_equal(system(command), 0);
}

static void links_that_are_down_or_slow_are_left_out(void **state) {
  (void)state;
  char root[256], command[300];
  support_temporary(root, sizeof root, "weft-choice");
  assert_non_null(mkdtemp(root));
  write_port(root, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)");
  write_port(root, "mlx5_1", "1: DOWN", "400 Gb/sec (4X NDR)");
  write_port(root, "mlx5_2", "4: ACTIVE", "25 Gb/sec (1X EDR)");
  write_port(root, "mlx5_3", "4: ACTIVE", "200 Gb/sec (4X HDR)");
  struct topology_choice *choice = host_choose("4_nics", "", root);
  assert_int_equal(host_nic(choice, "mlx5_0")->mbit_s, 400000);
  assert_int_equal(host_nic(choice, "mlx5_0")->link, TOPOLOGY_LINK_UP);
  assert_false(host_nic(choice, "mlx5_0")->infiniband);
  assert_string_equal(host_nic(choice, "mlx5_1")->why, "its link is down");
  assert_string_equal(host_nic(choice, "mlx5_2")->why, "its 25 Gbit/s are much less than the 400 of another NIC");
  assert_int_equal(choice->gpus[2].distance, TOPOLOGY_NODE);
  assert_int_equal(choice->gpus[2].nics[0], 0);
  assert_int_equal(choice->gpus[4].nics[0], 3);
  topology_choice_free(choice);
  snprintf(command, sizeof command, "rm -r '%s'", root);
  assert_int_equal(system(command), 0);
}

static void the_variable_is_read_where_nothing_is_asked(void **state) {
  (void)state;
  setenv("WEFT_NICS", "^mlx5_0", 1);
  struct topology_choice *choice = host_choose("10_nics", NULL, NULL);
  assert_string_equal(topology_nic_name(&choice->nics[choice->gpus[0].nics[0]]), "mlx5_1");
  topology_choice_free(choice);
  unsetenv("WEFT_NICS");
}

static void a_gpu_is_found_by_either_form_of_its_address(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("10_nics", "", NULL);
  assert_int_equal(topology_gpu_at(choice, "0000:16:00.0"), 1);
  assert_int_equal(topology_gpu_at(choice, "00000000:B4:00.0"), 6);
  assert_int_equal(topology_gpu_at(choice, "0000:ff:00.0"), -1);
  topology_choice_free(choice);
}

static void the_same_host_gives_the_same_choice(void **state) {
  (void)state;
  struct topology_choice *first = host_choose("nics_at_processors", "", NULL);
  struct topology_choice *second = host_choose("nics_at_processors", "", NULL);
  json_t *one = topology_choice_describe(first), *other = topology_choice_describe(second);
  assert_true(json_equal(one, other));
  assert_int_equal(json_array_size(json_object_get(one, "gpus")), 8);
  json_decref(one);
  json_decref(other);
  topology_choice_free(first);
  topology_choice_free(second);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_gpu_has_a_nic_of_its_switch),
      cmocka_unit_test(distances_are_those_of_the_buses),
      cmocka_unit_test(threads_belong_to_the_gpu_s_node),
      cmocka_unit_test(two_gpus_share_the_one_nic_near_them),
      cmocka_unit_test(equally_near_nics_are_shared_out_evenly),
      cmocka_unit_test(several_nics_for_each_gpu_are_all_used),
      cmocka_unit_test(what_does_not_go_round_is_left_over),
      cmocka_unit_test(a_host_without_nics_says_so),
      cmocka_unit_test(a_far_nic_is_better_than_none),
      cmocka_unit_test(names_decide_where_they_are_given),
      cmocka_unit_test(leaving_out_is_possible_too),
      cmocka_unit_test(a_link_that_is_down_is_used_when_it_is_named),
      cmocka_unit_test(a_name_that_is_not_there_is_refused),
      cmocka_unit_test(links_that_are_down_or_slow_are_left_out),
      cmocka_unit_test(the_variable_is_read_where_nothing_is_asked),
      cmocka_unit_test(a_gpu_is_found_by_either_form_of_its_address),
      cmocka_unit_test(the_same_host_gives_the_same_choice),
  };
  return cmocka_run_group_tests_name("choice of NICs", tests, NULL, NULL);
}
