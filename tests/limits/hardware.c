// Bounds from descriptions of hosts: made-up sysfs trees, a recorded machine, and a fake NVML.
#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "limits/support/small_host.h"

static void near(double value, double wanted) {
  if (!(value > wanted * 0.999 && value < wanted * 1.001))
    fail_msg("%g, and not %g", value, wanted);
}

static void a_host_is_described_by_its_files(void **state) {
  (void)state;
  root_put_small_host();
  struct limits_hardware hardware;
  assert_int_equal(limits_hardware_gather(&hardware, root), 0);
  assert_string_equal(hardware.cpu, "Made-up processor");
  assert_int_equal(hardware.nodes, 1);
  assert_int_equal(hardware.caches[1].bytes, 32 << 10);
  assert_int_equal(hardware.caches[2].bytes, 256 << 10);
  assert_int_equal(hardware.caches[3].bytes, 1 << 20);
  assert_int_equal(hardware.caches[3].shared, 2);
  assert_true(hardware.memory_bytes == UINT64_C(4) << 30);
  assert_int_equal(strlen(hardware.machine), 32);
  assert_null(strstr("00112233445566778899aabbccddeeff", hardware.machine)); // the id itself stays here
  limits_hardware_free(&hardware);
}

static void pcie_is_as_fast_as_the_slower_end(void **state) {
  (void)state;
  char detail[LIMITS_DETAIL];
  assert_true(limits_pcie_gbps(root, "0000:01:00.0", detail, sizeof detail) < 0);
  assert_non_null(strstr(detail, "0000:01:00.0"));
  root_put("/sys/bus/pci/devices/0000:01:00.0/max_link_speed", "32.0 GT/s PCIe\n");
  root_put("/sys/bus/pci/devices/0000:01:00.0/current_link_speed", "2.5 GT/s PCIe\n"); // it is idle
  root_put("/sys/bus/pci/devices/0000:01:00.0/current_link_width", "16\n");
  near(limits_pcie_gbps(root, "0000:01:00.0", detail, sizeof detail), 32 * 128.0 / 130 * 16 / 8 * 512 / 536);
  assert_non_null(strstr(detail, "generation 5, 16 lanes"));
  root_put("/sys/bus/pci/devices/max_link_speed", "16.0 GT/s PCIe\n"); // ".." of a device is its port
  root_put("/sys/bus/pci/devices/current_link_width", "8\n");
  near(limits_pcie_gbps(root, "0000:01:00.0", detail, sizeof detail), 16 * 128.0 / 130 * 8 / 8 * 512 / 536);
  assert_non_null(strstr(detail, "generation 4, 8 lanes"));
}

static void firmware_describes_memory_or_nobody_does(void **state) {
  (void)state;
  root_put_small_host();
  struct limits *limits = root_open();
  assert_null(limits_table_find(&limits->table, LIMITS_COPY, NULL, NULL));
  limits_close(limits);
  root_put("/sys/devices/system/node/node0/access0/initiators/read_bandwidth", "100000\n");
  root_put("/sys/devices/system/node/node0/access0/initiators/write_bandwidth", "50000\n");
  limits = root_open();
  const struct limits_entry *copy = limits_table_copy(&limits->table, 1, 1 << 30);
  assert_non_null(copy);
  near(copy->gbps, 50000 * 1.048576 / 1e3);
  assert_false(copy->measured);
  assert_null(limits_table_copy(&limits->table, 1, 1 << 20)); // caches are faster, and nobody says how fast
  limits_close(limits);
  root_put("/sys/devices/system/node/online", "0-1\n"); // of the second one nothing is known
  limits = root_open();
  assert_null(limits_table_find(&limits->table, LIMITS_COPY, NULL, NULL));
  limits_close(limits);
}

static void nics_of_a_recorded_machine(void **state) {
  (void)state;
  char machine[512];
  snprintf(machine, sizeof machine, "%s/tests/topology/host_p5en.xml", getenv("WEFT_SOURCE"));
  setenv("HWLOC_XMLFILE", machine, 1);
  struct limits *limits = root_open();
  assert_null(limits_table_find(&limits->table, LIMITS_NIC, NULL, NULL)); // the record has no speeds
  limits_close(limits);
  root_put("/sys/class/infiniband/rdmap85s0/ports/1/state", "4: ACTIVE\n");
  root_put("/sys/class/infiniband/rdmap85s0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  root_put("/sys/class/infiniband/rdmap86s0/ports/1/state", "4: ACTIVE\n");
  root_put("/sys/class/infiniband/rdmap86s0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  root_put("/sys/class/infiniband/rdmap87s0/ports/1/state", "1: DOWN\n");
  root_put("/sys/class/infiniband/rdmap87s0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  root_put("/sys/bus/pci/devices/0000:56:00.0/max_link_speed", "8.0 GT/s PCIe\n");
  root_put("/sys/bus/pci/devices/0000:56:00.0/current_link_width", "16\n");
  limits = root_open();
  const struct limits_entry *nic = limits_table_find(&limits->table, LIMITS_NIC, "rdmap85s0", NULL);
  assert_non_null(nic);
  near(nic->gbps, 25);
  assert_string_equal(nic->name, "nic rdmap85s0");
  nic = limits_table_find(&limits->table, LIMITS_NIC, "rdmap86s0", NULL); // its slot is slower than its link
  assert_non_null(nic);
  near(nic->gbps, 8 * 128.0 / 130 * 16 / 8 * 512 / 536);
  assert_non_null(strstr(nic->detail, "200 Gbit/s behind PCIe generation 3"));
  assert_null(limits_table_find(&limits->table, LIMITS_NIC, "rdmap87s0", NULL));
  limits_close(limits);
}

static void nvml_tells_of_links_and_memory(void **state) {
  (void)state;
  root_put_small_host();
  for (int i = 0; i < 4; i++) {
    char path[128];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/0000:0%d:00.0/max_link_speed", i);
    root_put(path, "32.0 GT/s PCIe\n");
    snprintf(path, sizeof path, "/sys/bus/pci/devices/0000:0%d:00.0/current_link_width", i);
    root_put(path, "16\n");
  }
  struct limits *limits = root_open();
  assert_int_equal(limits_know_gpus(limits), 0);
  const struct limits_table *table = &limits->table;
  const struct limits_entry *link = limits_table_find(table, LIMITS_GPU_LINK, "0000:00:00.0", "0000:01:00.0");
  assert_non_null(link);
  near(link->gbps, 18 * 25);
  assert_string_equal(link->detail, "NVLink: 18 links of 25 GB/s each, as NVML says");
  near(limits_table_find(table, LIMITS_GPU_LINK, "0000:03:00.0", "0000:02:00.0")->gbps, 4 * 25);
  link = limits_table_find(table, LIMITS_GPU_LINK, "0000:01:00.0", "0000:02:00.0");
  assert_non_null(strstr(link->detail, "no NVLink: PCIe generation 5"));
  near(link->gbps, 60.19);
  near(limits_table_find(table, LIMITS_GPU_MEMORY, "0000:01:00.0", NULL)->gbps, 2 * 2600e6 * 5120 / 8 / 1e9 / 2);
  assert_null(limits_table_find(table, LIMITS_GPU_MEMORY, "0000:02:00.0", NULL));
  limits_close(limits);
  setenv("FAKE_NVML_LINKS", "0", 1); // the driver does not say what a switch is
  limits = root_open();
  assert_int_equal(limits_know_gpus(limits), 0);
  near(limits_table_find(&limits->table, LIMITS_GPU_LINK, "0000:00:00.0", "0000:01:00.0")->gbps, 18 * 25);
  limits_close(limits);
  setenv("FAKE_NVML_LINKS", "3", 1); // there are none
  limits = root_open();
  assert_int_equal(limits_know_gpus(limits), 0);
  near(limits_table_find(&limits->table, LIMITS_GPU_LINK, "0000:00:00.0", "0000:01:00.0")->gbps, 60.19);
  limits_close(limits);
  setenv("FAKE_NVML_LINKS", "4", 1); // it may not say
  limits = root_open();
  assert_int_equal(limits_know_gpus(limits), 0);
  assert_null(limits_table_find(&limits->table, LIMITS_GPU_LINK, NULL, NULL));
  limits_close(limits);
  unsetenv("FAKE_NVML_LINKS");
}

static void without_nvml_nothing_is_known_of_gpus(void **state) {
  (void)state;
  struct limits *limits = NULL;
  root_put_small_host();
  const struct limits_places places = {.root = root, .nvml = "/nowhere/nvml.so", .gpu_address = root_gpu_address};
  assert_int_equal(limits_open_at(&limits, &places), 0);
  assert_int_equal(limits_know_gpus(limits), 0);
  assert_null(limits_table_find(&limits->table, LIMITS_GPU_LINK, NULL, NULL));
  limits_close(limits);
}

static void a_disk_is_bounded_by_its_slot(void **state) {
  (void)state;
  char detail[LIMITS_DETAIL], link[512], device[LIMITS_DEVICE];
  bool in_memory = true;
  root_put("/sys/bus/pci/devices/0000:05:00.0/max_link_speed", "16.0 GT/s PCIe\n");
  root_put("/sys/bus/pci/devices/0000:05:00.0/current_link_width", "4\n");
  root_put("/sys/devices/pci0000:00/0000:05:00.0/nvme/nvme0/nvme0n1/nvme0n1p1/size", "1\n");
  root_put("/sys/dev/block/.there", "");
  snprintf(link, sizeof link, "%s/sys/dev/block/259:1", root);
  assert_int_equal(symlink("../../devices/pci0000:00/0000:05:00.0/nvme/nvme0/nvme0n1/nvme0n1p1", link), 0);
  near(limits_disk_gbps(root, "259:1", detail, sizeof detail), 16 * 128.0 / 130 * 4 / 8 * 512 / 536);
  assert_non_null(strstr(detail, "NVMe"));
  assert_true(limits_disk_gbps(root, "8:1", detail, sizeof detail) < 0);
  assert_non_null(strstr(detail, "weft bench limits --path"));
  assert_true(limits_disk_of(root, device, &in_memory));
  snprintf(link, sizeof link, "%s/not/there/at/all", root);
  assert_false(limits_disk_of(link, device, &in_memory));
  snprintf(link, sizeof link, "%s/new", root); // a file that is not made yet is where its folder is
  assert_true(limits_disk_of(link, device, &in_memory));
}

static void put_link(const char *device, const char *folder) {
  char link[512];
  snprintf(link, sizeof link, "%s/sys/dev/block/%s", root, device);
  assert_int_equal(symlink(folder, link), 0);
}

static const char *key_of(const char *device) {
  static char keys[8][LIMITS_DEVICE];
  static uint32_t next;
  char *key = keys[next++ % 8];
  assert_int_equal(limits_disk_key(root, device, key), 0);
  assert_int_equal(strlen(key), 16);
  return key;
}

// By what stays with it, and not by a number that another disk may have after the next start.
static void a_disk_is_known_again(void **state) {
  (void)state;
  root_put("/sys/dev/block/.there", "");
  root_put("/sys/devices/a/block/nvme0n1/wwid", "eui.0123\n");
  root_put("/sys/devices/a/block/nvme0n1/size", "100\n");
  root_put("/sys/devices/a/block/nvme0n1/nvme0n1p1/partition", "1\n");
  root_put("/sys/devices/a/block/nvme0n1/nvme0n1p2/partition", "2\n");
  root_put("/sys/devices/b/block/nvme1n1/wwid", "eui.4567\n");
  root_put("/sys/devices/b/block/nvme1n1/size", "100\n");
  root_put("/sys/devices/c/block/vda/serial", "\n"); // virtio has none unless one was given
  root_put("/sys/devices/c/block/vda/size", "100\n");
  put_link("259:0", "../../devices/a/block/nvme0n1");
  put_link("259:1", "../../devices/a/block/nvme0n1/nvme0n1p1");
  put_link("259:2", "../../devices/a/block/nvme0n1/nvme0n1p2");
  put_link("259:3", "../../devices/b/block/nvme1n1");
  put_link("259:9", "../../devices/a/block/nvme0n1"); // as after another start
  assert_string_equal(key_of("259:0"), key_of("259:9"));
  const char *others[] = {"259:1", "259:2", "259:3"};
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < i; k++)
      assert_string_not_equal(key_of(others[i]), key_of(others[k]));
  assert_string_not_equal(key_of("259:0"), key_of("259:1"));
  assert_string_not_equal(key_of("259:0"), key_of("259:3"));
  put_link("254:0", "../../devices/c/block/vda");
  const char *before = key_of("254:0");
  assert_string_equal(before, key_of("254:0"));
  assert_string_not_equal(before, key_of("254:1"));
  root_put("/sys/devices/c/block/vda/diskseq", "7\n"); // another was plugged in
  assert_string_not_equal(before, key_of("254:0"));
  const char *small = key_of("259:0");
  root_put("/sys/devices/a/block/nvme0n1/size", "200\n");
  assert_string_not_equal(small, key_of("259:0"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_host_is_described_by_its_files, root_make, root_remove),
      cmocka_unit_test_setup_teardown(pcie_is_as_fast_as_the_slower_end, root_make, root_remove),
      cmocka_unit_test_setup_teardown(firmware_describes_memory_or_nobody_does, root_make, root_remove),
#ifdef HAVE_HWLOC
      cmocka_unit_test_setup_teardown(nics_of_a_recorded_machine, root_make, root_remove),
#endif
      cmocka_unit_test_setup_teardown(nvml_tells_of_links_and_memory, root_make, root_remove),
      cmocka_unit_test_setup_teardown(without_nvml_nothing_is_known_of_gpus, root_make, root_remove),
      cmocka_unit_test_setup_teardown(a_disk_is_bounded_by_its_slot, root_make, root_remove),
      cmocka_unit_test_setup_teardown(a_disk_is_known_again, root_make, root_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
