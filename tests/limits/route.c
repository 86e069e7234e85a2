// Which bound a route has, and which figures are refused.
#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limits/support/small_host.h"

static void add(struct limits *limits, enum limits_kind kind, const char *name, const char *device, const char *other,
                uint32_t processors, uint64_t bytes, double gbps) {
  struct limits_entry entry = {
      .kind = kind, .processors = processors, .bytes = bytes, .gbps = gbps, .measured = kind != LIMITS_NIC};
  snprintf(entry.name, sizeof entry.name, "%s", name);
  snprintf(entry.device, sizeof entry.device, "%s", device);
  snprintf(entry.other, sizeof entry.other, "%s", other);
  assert_int_equal(limits_table_add(&limits->table, &entry), 0);
}

static struct limits *open_measured(void) {
  root_put_small_host();
  struct limits *limits = root_open();
  for (uint32_t count = 1; count <= 4; count *= 4) {
    add(limits, LIMITS_COPY, "L1", "", "", count, count * (16 << 10), count * 100);
    add(limits, LIMITS_COPY, "L2", "", "", count, count * (128 << 10), count * 40);
    add(limits, LIMITS_COPY, "host", "", "", count, count * (64 << 20), count == 1 ? 12 : 30);
  }
  add(limits, LIMITS_COPY, "between nodes", "node 0", "node 1", 8, 1 << 30, 500);
  add(limits, LIMITS_LOOPBACK, "loopback tcp", "", "", 0, 0, 5);
  add(limits, LIMITS_NIC, "nic mlx5_0", "mlx5_0", "", 0, 0, 50);
  add(limits, LIMITS_NIC, "nic mlx5_1", "mlx5_1", "", 0, 0, 50);
  add(limits, LIMITS_GPU_MEMORY, "gpu memory 0", "0000:00:00.0", "", 0, 0, 1500);
  add(limits, LIMITS_GPU_LINK, "link 0 to 1", "0000:00:00.0", "0000:01:00.0", 0, 0, 400);
  add(limits, LIMITS_GPU_HOST, "pcie 0", "0000:00:00.0", "", 0, 0, 55);
  return limits;
}

static double bound_of(struct limits *limits, struct limits_route route) {
  struct limits_bound bound;
  limits_route_bound(limits, &route, &bound);
  assert_true(*bound.name);
  if (bound.gbps < 0)
    assert_true(*bound.detail);
  return bound.gbps;
}

#define BOUND(...) bound_of(limits, (struct limits_route){__VA_ARGS__})
#define SHM        .transport = "shm", .copiers = 1

static void copies_are_bounded_by_the_cache_that_holds_them(void **state) {
  (void)state;
  struct limits *limits = open_measured();
  assert_true(BOUND(SHM, .working_set = 16) == 100);
  assert_true(BOUND(SHM, .working_set = 16 << 10) == 100);
  assert_true(BOUND(SHM, .working_set = 127 << 10) == 100); // it may be in the first cache in parts
  assert_true(BOUND(SHM, .working_set = 128 << 10) == 40);
  assert_true(BOUND(SHM, .working_set = 63 << 20) == 40);
  assert_true(BOUND(SHM, .working_set = 1 << 30) == 12);
  assert_true(BOUND(SHM, .working_set = 1 << 30, .pairs = 4) == 30);
  assert_true(BOUND(SHM, .working_set = 1 << 30, .pairs = 2) == 30); // of as many as were measured, or more
  assert_true(BOUND(SHM, .working_set = 1 << 30, .pairs = 64) == 30);
  assert_true(BOUND(SHM, .pairs = 4) == 400);       // nobody says how large the buffers are
  assert_true(BOUND(.working_set = 1 << 30) == 30); // nor how many processors copy
  assert_true(BOUND(.transport = "ucx", .working_set = 1 << 30) == 30);
  limits_close(limits);
}

// On a host whose memory is busy with half of the processors, all of them together copy more slowly.
static void fewer_processors_may_be_faster(void **state) {
  (void)state;
  struct limits *limits = open_measured();
  add(limits, LIMITS_COPY, "host copy by 8", "", "", 8, 512 << 20, 25);
  assert_true(BOUND(.transport = "ucx", .working_set = 1 << 30) == 30); // nobody knows how many copy
  assert_true(BOUND(SHM, .working_set = 1 << 30, .pairs = 8) == 30);
  assert_true(BOUND(SHM, .working_set = 1 << 30) == 12);
  limits_close(limits);
}

static void networks(void **state) {
  (void)state;
  struct limits *limits = open_measured();
  struct limits_end other = {.host = "b"};
  assert_true(BOUND(.to = other, .transport = "ofi") == 100);
  assert_true(BOUND(.to = other, .transport = "ucx", .devices = "mlx5_1:1,lo") == 50);
  assert_true(BOUND(.to = other, .transport = "ucx", .devices = "mlx5") < 0);
  assert_true(BOUND(.to = other, .from = {.host = "b"}, .transport = "shm", .copiers = 1) == 100);
  assert_true(BOUND(.transport = "ofi") == 100); // NICs may send to themselves
  assert_true(BOUND(.transport = "ofi", .devices = "lo") == 5);
  assert_true(BOUND(.from = {.memory = LIMITS_CUDA}, .to = other, .transport = "ucx") == 55); // its slot is narrower
  assert_true(BOUND(.from = {.memory = LIMITS_CUDA}, .to = {.memory = LIMITS_CUDA, .host = "b"}, .transport = "cuda") <
              0);
  limits_close(limits);
}

static void gpus(void **state) {
  (void)state;
  struct limits *limits = open_measured();
  const struct limits_end zero = {.memory = LIMITS_CUDA}, one = {.memory = LIMITS_CUDA, .gpu = 1};
  assert_true(BOUND(.from = zero, .to = one) == 400);
  assert_true(BOUND(.from = one, .to = zero) < 0); // not measured, and this host has no NVML
  assert_true(BOUND(.from = zero, .to = zero) == 1500);
  assert_true(BOUND(.from = zero) == 55);
  assert_true(BOUND(.to = zero) == 55);
  limits_close(limits);
}

// The host was started again, and the disk that had the device's number has another one now.
static void another_disk_has_the_number(struct limits *limits, const struct limits_end *file, const char *device) {
  char name[600], key[LIMITS_DEVICE];
  struct limits_bound bound;
  const struct limits_route route = {.to = *file};
  snprintf(name, sizeof name, "/sys/dev/block/%s/wwid", device);
  root_put(name, "eui.0123\n");
  limits_route_bound(limits, &route, &bound);
  assert_true(bound.gbps < 0);
  assert_non_null(strstr(bound.detail, "the kept bounds are of another disk"));
  assert_int_equal(limits_disk_key(root, device, key), 0);
  add(limits, LIMITS_DISK_WRITE, "disk write", "/somewhere", key, 0, 0, 7);
  assert_true(BOUND(.to = *file) == 7);
  root_put(name, "eui.4567\n");
  assert_true(BOUND(.to = *file) < 0);
}

static void storage(void **state) {
  (void)state;
  struct limits *limits = open_measured();
  char device[LIMITS_DEVICE], key[LIMITS_DEVICE];
  bool in_memory = false;
  struct limits_end file = {.memory = LIMITS_FILE, .path = root}, none = {.memory = LIMITS_FILE, .path = "/no/where"};
  assert_true(limits_disk_of(root, device, &in_memory));
  if (!in_memory) {
    assert_true(BOUND(.to = file) < 0);
    add(limits, LIMITS_DISK_WRITE, "disk write", "/somewhere", device, 0, 0, 9); // a number alone names no disk
    assert_true(BOUND(.to = file) < 0);
    assert_int_equal(limits_disk_key(root, device, key), 0);
    add(limits, LIMITS_DISK_WRITE, "disk write", "/somewhere", key, 0, 0, 2);
    add(limits, LIMITS_DISK_READ, "disk read", "/somewhere", key, 0, 0, 3);
    assert_true(BOUND(.to = file) == 2);
    assert_true(BOUND(.from = file) == 3);
    another_disk_has_the_number(limits, &file, device);
  }
  file.path = "/dev/shm/new"; // no disk at all
  if (limits_disk_of(file.path, device, &in_memory) && in_memory)
    assert_true(BOUND(.to = file, .working_set = 1 << 30) == 30);
  assert_true(BOUND(.to = none) < 0);
  assert_true(BOUND(.to = {.memory = LIMITS_OBJECT}) < 0);
  assert_true(BOUND(.to = {.memory = LIMITS_OBJECT, .host = "127.0.0.1"}) == 5);
  assert_true(BOUND(.to = {.memory = LIMITS_OBJECT, .host = "s3.example.org"}) == 100);
  limits_close(limits);
}

static void nothing_measured(void **state) {
  (void)state;
  root_put_small_host();
  struct limits *limits = root_open();
  assert_true(BOUND(SHM, .working_set = 1 << 30) < 0);
  assert_true(BOUND(.transport = "ofi") < 0);
  assert_true(BOUND(.to = {.host = "b"}) < 0);
  limits_close(limits);
}

// --- refusals ---

static void refuses(struct limits_claim claim, const char *sentence) {
  char why[512] = "";
  assert_true(limits_refuse(&claim, why, sizeof why));
  assert_string_equal(why, sentence);
}

static const struct limits_bound link = {.name = "link 0 to 1", .gbps = 400}, unknown = {.gbps = -1},
                                 copy = {.name = "host copy", .gbps = 10, .measured = true};

static void figures_that_can_be_true(void **state) {
  (void)state;
  char why[512] = "";
  const struct limits_claim claims[] = {{.gbps = 400, .bound = link},
                                        {.gbps = 419, .bound = link}, // a bound is as exact as its measurement
                                        {.gbps = 1e6, .bound = unknown},
                                        {.gbps = 3, .window_s = 1e-6, .bound = copy}, // short, but nothing is wrong
                                        {.gbps = 0, .bound = copy}};
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
    assert_false(limits_refuse(&claims[i], why, sizeof why));
  assert_string_equal(why, "");
  assert_true(limits_percent(&copy, 5) == 50);
  assert_true(limits_percent(&unknown, 5) < 0);
}

// What another program printed for a host with one NIC (docs/results.md): here the NIC has 400 Gb/s.
static void more_than_a_nic_carries(void **state) {
  (void)state;
  struct limits *limits = open_measured();
  const struct limits_route route = {.to = {.host = "b"}, .transport = "ucx", .devices = "mlx5_1:1"};
  struct limits_claim claim = {.gbps = 284.98, .window_s = 1};
  limits_route_bound(limits, &route, &claim.bound);
  refuses(claim, "285 GB/s is above the bound of nic mlx5_1, 50 GB/s (described by the hardware)");
  limits_close(limits);
}

static void figures_that_cannot(void **state) {
  (void)state;
  refuses((struct limits_claim){.gbps = 421, .window_s = 1, .bound = link},
          "421 GB/s is above the bound of link 0 to 1, 400 GB/s (described by the hardware)");
  refuses(
      (struct limits_claim){.gbps = 11, .bound = copy},
      "11 GB/s is above the bound of host copy, 10 GB/s (measured): if the host was busy when the bound was measured, "
      "measure it again with 'weft bench limits'");
  refuses((struct limits_claim){.gbps = 11, .window_s = 5e-4, .bound = copy},
          "11 GB/s is above the bound of host copy, 10 GB/s: it was measured in 500 us, but less than 1 ms is too "
          "short; want more iterations");
  refuses((struct limits_claim){.gbps = 1800, .same_gpu = true, .bound = link},
          "1800 GB/s: both ends are on one GPU, so the bytes were copied within its memory and crossed no link (the "
          "bound of link 0 to 1 is 400 GB/s)");
  refuses((struct limits_claim){.gbps = 1, .same_gpu = true, .bound = unknown},
          "1 GB/s: both ends are on one GPU, so the bytes were copied within its memory and crossed no link");
  refuses((struct limits_claim){.gbps = 1, .cached = true, .bound = unknown},
          "1 GB/s: the page cache served the file, so this is the speed of memory, not of the disk");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(copies_are_bounded_by_the_cache_that_holds_them, root_make, root_remove),
      cmocka_unit_test_setup_teardown(fewer_processors_may_be_faster, root_make, root_remove),
      cmocka_unit_test_setup_teardown(networks, root_make, root_remove),
      cmocka_unit_test_setup_teardown(gpus, root_make, root_remove),
      cmocka_unit_test_setup_teardown(storage, root_make, root_remove),
      cmocka_unit_test_setup_teardown(nothing_measured, root_make, root_remove),
      cmocka_unit_test(figures_that_can_be_true),
      cmocka_unit_test_setup_teardown(more_than_a_nic_carries, root_make, root_remove),
      cmocka_unit_test(figures_that_cannot),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
