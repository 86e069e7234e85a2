// Which NICs serve which GPU on machines that were recorded (see recorded_hosts.py).
#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/temporary.h"
#include "topology/support/hosts.h"

static const char *const machines[] = {"p4d", "p5en", "p6_b200", "p6_b300"};
enum { MACHINES = sizeof machines / sizeof machines[0] };

static size_t count_chosen(const struct topology_choice *choice) {
  size_t count = 0;
  for (size_t n = 0; n < choice->num_nics; n++)
    count += choice->nics[n].chosen;
  return count;
}

// NVSwitches, displays, disks and the devices that manage NVSwitches are neither.
static void eight_gpus_are_found_and_all_adapters_for_them(void **state) {
  (void)state;
  static const uint16_t gpus[] = {0x20b0, 0x2335, 0x2901, 0x3182};
  static const size_t adapters[] = {4, 16, 8, 16}, others[] = {4, 16, 10, 3};
  for (int m = 0; m < MACHINES; m++) {
    struct topology_choice *choice = host_choose(machines[m], "", NULL);
    assert_int_equal(choice->num_gpus, 8);
    for (size_t g = 0; g < 8; g++)
      assert_int_equal(choice->gpus[g].device, gpus[m]);
    assert_int_equal(choice->num_nics, adapters[m] + others[m]);
    assert_int_equal(count_chosen(choice), adapters[m]);
    for (size_t n = 0; n < choice->num_nics; n++)
      assert_int_equal(choice->nics[n].chosen, strncmp(choice->nics[n].rdma, "rdmap", 5) == 0);
    topology_choice_free(choice);
  }
}

static void a_gpu_without_a_switch_shares_the_nic_of_its_host_bridge(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p4d", "", NULL);
  host_serves(choice, "0:rdmap16s27 1:rdmap16s27 2:rdmap32s27 3:rdmap32s27 "
                      "4:rdmap144s27 5:rdmap144s27 6:rdmap160s27 7:rdmap160s27");
  assert_string_equal(choice->gpus[2].address, "0000:20:1c.0");
  assert_string_equal(choice->gpus[2].why, "rdmap32s27: below the same host bridge (PHB); serves GPU 3 too");
  topology_choice_free(choice);
}

static void four_nics_of_a_switch_are_two_for_each_of_its_gpus(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p5en", "", NULL);
  host_serves(choice,
              "0:rdmap85s0,rdmap87s0 1:rdmap86s0,rdmap88s0 2:rdmap110s0,rdmap112s0 3:rdmap111s0,rdmap113s0 "
              "4:rdmap135s0,rdmap137s0 5:rdmap136s0,rdmap138s0 6:rdmap160s0,rdmap162s0 7:rdmap161s0,rdmap163s0");
  assert_string_equal(choice->gpus[5].why,
                      "rdmap136s0, rdmap138s0: of 4 NICs behind the same PCIe switch (PIX), shared out evenly");
  topology_choice_free(choice);
}

static void two_nics_of_a_gpu_s_own_switch_are_its_own(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p6_b300", "", NULL);
  host_serves(choice,
              "0:rdmap86s0,rdmap87s0 1:rdmap101s0,rdmap102s0 2:rdmap116s0,rdmap117s0 3:rdmap131s0,rdmap132s0 "
              "4:rdmap146s0,rdmap147s0 5:rdmap161s0,rdmap162s0 6:rdmap176s0,rdmap177s0 7:rdmap191s0,rdmap192s0");
  assert_string_equal(choice->gpus[7].why, "rdmap191s0, rdmap192s0: behind the same PCIe switch (PIX)");
  topology_choice_free(choice);
}

// They are InfiniBand, active, on the switch of two GPUs, and reach the NVSwitches only.
static void devices_that_manage_nvswitches_serve_no_gpu(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p6_b200", "", NULL);
  host_serves(choice, "0:rdmap79s0 1:rdmap80s0 2:rdmap96s0 3:rdmap97s0 "
                      "4:rdmap113s0 5:rdmap114s0 6:rdmap132s0 7:rdmap133s0");
  const struct topology_nic *manager = host_nic(choice, "ibp115s0f0");
  assert_int_equal(manager->link, TOPOLOGY_LINK_UP);
  assert_true(manager->infiniband);
  assert_int_equal(topology_distance_of(choice, 4, (size_t)(manager - choice->nics)), TOPOLOGY_PIX);
  assert_string_equal(manager->why, "its PCIe link of 31.51 Gbit/s is much slower than another one of 504.1");
  assert_string_equal(host_nic(choice, "ibp116s0f0")->why, manager->why);
  topology_choice_free(choice);
  choice = host_choose("p6_b300", "", NULL);
  assert_string_equal(host_nic(choice, "ibp198s0f0")->why,
                      "its PCIe link of 15.75 Gbit/s is much slower than another one of 504.1");
  topology_choice_free(choice);
}

static void a_plain_nic_serves_where_the_adapters_are_left_out(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p5en", "", NULL);
  assert_string_equal(host_nic(choice, "enp71s0")->why, "it has no RDMA device, and others have");
  assert_int_equal(topology_distance_of(choice, 0, (size_t)(host_nic(choice, "enp71s0") - choice->nics)), TOPOLOGY_PIX);
  topology_choice_free(choice);
  choice = host_choose("p6_b300", "enp71s0,rdmap192s0:1", NULL);
  host_serves(choice, "0:enp71s0 1:enp71s0 2:enp71s0 3:enp71s0 4:rdmap192s0 5:rdmap192s0 6:rdmap192s0 7:rdmap192s0");
  topology_choice_free(choice);
  choice = host_choose("p6_b200", "ibp115s0f0", NULL); // who names a device means it
  assert_true(host_nic(choice, "ibp115s0f0")->chosen);
  topology_choice_free(choice);
}

static void a_user_who_names_every_nic_still_gets_the_nearest(void **state) {
  (void)state;
  char names[1024] = "";
  struct topology_choice *choice = host_choose("p6_b300", "", NULL);
  for (size_t n = 0; n < choice->num_nics; n++)
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", n ? "," : "",
             topology_nic_name(&choice->nics[n]));
  topology_choice_free(choice);
  choice = host_choose("p6_b300", names, NULL);
  assert_int_equal(count_chosen(choice), 16);
  assert_string_equal(host_nic(choice, "enp71s0")->why, "each GPU has a nearer one");
  assert_string_equal(host_nic(choice, "ibp198s0f0")->why, "each GPU has a nearer one");
  topology_choice_free(choice);
}

// Where nothing describes PCIe links, a device of another network than most is recognised by that.
static void what_is_on_another_network_serves_no_gpu(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p6_b200", "", NULL);
  for (size_t n = 0; n < choice->num_nics; n++)
    choice->nics[n].pci_mbit_s = 0;
  assert_int_equal(topology_assign(choice, ""), 0);
  assert_int_equal(count_chosen(choice), 8);
  assert_string_equal(host_nic(choice, "ibp115s0f0")->why, "it is on InfiniBand, and the others are on EFA");
  for (size_t n = 0; n < choice->num_nics; n++) // two of each are left, and these are faster
    if (n > 3 && strncmp(choice->nics[n].rdma, "rdmap", 5) == 0)
      choice->nics[n].link = TOPOLOGY_LINK_DOWN;
    else
      choice->nics[n].mbit_s = strncmp(choice->nics[n].rdma, "ibp", 3) == 0 ? 400000 : 200000;
  assert_int_equal(topology_assign(choice, ""), 0);
  assert_int_equal(count_chosen(choice), 2);
  assert_string_equal(host_nic(choice, "rdmap79s0")->why, "it is on EFA, and the others are on InfiniBand");
  topology_choice_free(choice);
}

static void distances_grow_from_switch_to_processor(void **state) {
  (void)state;
  static const char *const machine[] = {"p4d", "p5en", "p6_b200", "p6_b300"};
  static const char *const nics[][3] = {{"rdmap16s27", "rdmap32s27", "rdmap144s27"},
                                        {"rdmap88s0", "rdmap110s0", "rdmap135s0"},
                                        {"rdmap80s0", "rdmap96s0", "rdmap113s0"},
                                        {"rdmap87s0", "rdmap101s0", "rdmap146s0"}};
  static const char *const first[] = {"PHB", "PIX", "PIX", "PIX"};
  for (int m = 0; m < MACHINES; m++) {
    struct topology_choice *choice = host_choose(machine[m], "", NULL);
    const char *const expected[] = {first[m], "NODE", "SYS"};
    for (int i = 0; i < 3; i++) {
      size_t nic = (size_t)(host_nic(choice, nics[m][i]) - choice->nics);
      assert_string_equal(topology_distance_name(topology_distance_of(choice, 0, nic)), expected[i]);
    }
    topology_choice_free(choice);
  }
}

static void threads_run_on_both_halves_of_the_cores_near_the_gpu(void **state) {
  (void)state;
  for (int m = 0; m < MACHINES; m++) {
    struct topology_choice *choice = host_choose(machines[m], "", NULL);
    const char *const near[] = {m == 0 ? "0-23,48-71" : "0-47,96-143", m == 0 ? "24-47,72-95" : "48-95,144-191"};
    assert_int_equal(choice->num_nodes, 2);
    for (int node = 0; node < 2; node++)
      assert_string_equal(choice->nodes[node].cpus, near[node]);
    for (size_t g = 0; g < 8; g++) {
      assert_int_equal(choice->gpus[g].numa_node, g / 4);
      assert_string_equal(choice->gpus[g].cpus, near[g / 4]);
    }
    topology_choice_free(choice);
  }
}

// A machine that was recorded has only what hwloc saw; on this one the system's files are read too.
static void the_pcie_link_is_read_from_the_system(void **state) {
  (void)state;
  char root[256], command[1024];
  support_temporary(root, sizeof root, "weft-recorded");
  assert_non_null(mkdtemp(root));
  snprintf(command, sizeof command,
           "cd '%s' && mkdir -p sys/bus/pci/devices/0000:10:1b.0 sys/bus/pci/devices/0000:20:1b.0 "
           "sys/bus/pci/devices/0000:90:1b.0 && cd sys/bus/pci/devices && "
           "for at in 10 20 90; do echo 16 > 0000:$at:1b.0/current_link_width; done && "
           "echo '32.0 GT/s PCIe' > 0000:10:1b.0/current_link_speed && "
           "echo '2.5 GT/s PCIe' > 0000:20:1b.0/current_link_speed && echo Unknown > 0000:90:1b.0/current_link_speed",
           root);
  assert_int_equal(system(command), 0);
  struct topology_choice *choice = host_choose("p4d", "", root);
  assert_int_equal(host_nic(choice, "rdmap16s27")->pci_mbit_s, 504123);
  assert_int_equal(host_nic(choice, "rdmap32s27")->pci_mbit_s, 32000);
  assert_int_equal(host_nic(choice, "rdmap144s27")->pci_mbit_s, 0);
  assert_int_equal(host_nic(choice, "rdmap160s27")->pci_mbit_s, 0);
  assert_string_equal(host_nic(choice, "rdmap32s27")->why,
                      "its PCIe link of 32 Gbit/s is much slower than another one of 504.1");
  assert_true(host_nic(choice, "rdmap144s27")->chosen);
  topology_choice_free(choice);
  snprintf(command, sizeof command, "rm -r '%s'", root);
  assert_int_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(eight_gpus_are_found_and_all_adapters_for_them),
      cmocka_unit_test(a_gpu_without_a_switch_shares_the_nic_of_its_host_bridge),
      cmocka_unit_test(four_nics_of_a_switch_are_two_for_each_of_its_gpus),
      cmocka_unit_test(two_nics_of_a_gpu_s_own_switch_are_its_own),
      cmocka_unit_test(devices_that_manage_nvswitches_serve_no_gpu),
      cmocka_unit_test(a_plain_nic_serves_where_the_adapters_are_left_out),
      cmocka_unit_test(a_user_who_names_every_nic_still_gets_the_nearest),
      cmocka_unit_test(what_is_on_another_network_serves_no_gpu),
      cmocka_unit_test(distances_grow_from_switch_to_processor),
      cmocka_unit_test(threads_run_on_both_halves_of_the_cores_near_the_gpu),
      cmocka_unit_test(the_pcie_link_is_read_from_the_system),
  };
  return cmocka_run_group_tests_name("choice of NICs on recorded machines", tests, NULL, NULL);
}
