// What weft doctor reads from a host: from a made-up /sys, /proc and /dev, and, where only a real host works, from this
// one.
#include "cmocka_all.h"
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "doctor/host/host.h"
#include "doctor/library/ask.h"
#include "support/process_vm.h"
#include "support/root.h"

static int make_root(void **state) {
  (void)state;
  return root_make_named("weft-doctor");
}

static void rdma_ports_and_their_gids_are_counted(void **state) {
  (void)state;
  root_put("/sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n");
  root_put("/sys/class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet\n");
  root_put("/sys/class/infiniband/mlx5_1/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  root_put("/sys/class/infiniband/mlx5_1/ports/1/gids/0", "fe80:0000:0000:0000:0ac0:ebff:fe12:3456\n");
  root_put("/sys/class/infiniband/mlx5_1/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
  root_put("/sys/class/infiniband/mlx5_1/ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
  root_put("/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
  root_put("/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/1", "RoCE v2\n");
  root_put("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  root_put("/sys/class/infiniband/mlx5_0/ports/2/state", "2: INIT\n");
  root_put("/dev/infiniband/uverbs0", "");
  root_put("/dev/infiniband/uverbs1", "");
  root_put("/dev/infiniband/rdma_cm", "");
  struct doctor_rdma_facts facts = {0};
  doctor_gather_rdma(&facts, root);
  assert_int_equal(facts.count, 3);
  assert_string_equal(facts.ports[0].device, "mlx5_0");
  assert_int_equal(facts.ports[1].number, 2);
  assert_string_equal(facts.ports[1].state, "2: INIT");
  assert_int_equal(facts.ports[0].gids, 0);
  assert_string_equal(facts.ports[2].layer, "Ethernet");
  assert_string_equal(facts.ports[2].rate, "400 Gb/sec (4X NDR)");
  assert_int_equal(facts.ports[2].gids, 2);
  assert_int_equal(facts.ports[2].routable, 1);
  assert_int_equal(facts.verbs, 2);
  assert_int_equal(facts.verbs_usable, 2);
}

static void memory_is_read_from_proc_and_limits(void **state) {
  (void)state;
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  root_put("/proc/meminfo",
           "MemTotal: 1 kB\nHugePages_Total:      16\nHugePages_Free:       12\nHugepagesize:       2048 kB\n");
  root_put("/proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
  root_put("/dev/shm/x", "");
  struct doctor_memory_facts facts = {0};
  doctor_gather_memory(&facts, root);
  assert_int_equal(facts.huge_total, 16);
  assert_int_equal(facts.huge_free, 12);
  assert_int_equal(facts.huge_page, 2 << 20);
  assert_true(facts.may_lock); // bit 14 is CAP_IPC_LOCK
  assert_false(facts.shm);     // a folder like any other
  assert_int_equal(facts.files, limit.rlim_cur);
  root_put("/proc/self/status", "CapEff:\tffffffffffffbfff\n");
  doctor_gather_memory(&facts, root);
  assert_false(facts.may_lock);
}

// The kernel heeds it in the first user namespace alone, whose number is always the same.
static void a_capability_of_a_user_namespace_locks_nothing(void **state) {
  (void)state;
  static const struct {
    const char *namespace;
    bool counts;
  } cases[] = {{"user:[4026531837]", true}, {"user:[4026532177]", false}};
  char link[ROOT_PATH + 32];
  snprintf(link, sizeof link, "%s/proc/self/ns/user", root);
  root_put("/proc/self/status", "CapEff:\t000001ffffffffff\n");
  root_put("/proc/self/ns/user", "");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct doctor_memory_facts facts = {0};
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink(cases[i].namespace, link), 0);
    doctor_gather_memory(&facts, root);
    assert_int_equal(facts.may_lock, cases[i].counts);
    assert_int_equal(facts.may_lock_inside, !cases[i].counts);
  }
}

// 0: it is read as one without a limit; 1: it is not; 2: this process may not mount one.
static int read_unlimited_shm(void) {
  struct doctor_memory_facts facts = {0};
  char path[ROOT_PATH + 16];
  snprintf(path, sizeof path, "%s/dev/shm", root);
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("tmpfs", path, "tmpfs", 0, "size=0") != 0)
    return 2;
  doctor_gather_memory(&facts, root);
  return !(facts.shm && facts.shm_size == DOCTOR_UNLIMITED && facts.shm_free == DOCTOR_UNLIMITED);
}

// As `podman run --shm-size 0` mounts it.
static void a_dev_shm_without_a_limit_is_not_taken_for_a_full_one(void **state) {
  (void)state;
  int status = 0;
  root_put("/dev/shm/x", "");
  pid_t child = fork(); // its mounts end with it
  if (child == 0)
    _exit(read_unlimited_shm());
  assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  if (WEXITSTATUS(status) == 2)
    print_message("this user may not mount a tmpfs\n");
  else
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void interfaces_are_those_of_sysfs_without_loopback(void **state) {
  (void)state;
  root_put("/sys/class/net/lo/mtu", "65536\n");
  root_put("/sys/class/net/eth1/mtu", "9000\n");
  root_put("/sys/class/net/eth1/operstate", "up\n");
  root_put("/sys/class/net/eth1/speed", "100000\n");
  root_put("/sys/class/net/eth0/mtu", "1500\n");
  root_put("/sys/class/net/eth0/operstate", "down\n");
  root_put("/sys/class/net/eth0/speed", "-1\n");
  struct doctor_network_facts facts = {0};
  doctor_gather_network(&facts, root);
  assert_int_equal(facts.count, 2);
  assert_string_equal(facts.interfaces[0].name, "eth0");
  assert_string_equal(facts.interfaces[0].state, "down");
  assert_int_equal(facts.interfaces[0].mbit_s, 0);
  assert_int_equal(facts.interfaces[1].mtu, 9000);
  assert_int_equal(facts.interfaces[1].mbit_s, 100000);
}

static void the_driver_is_read_where_there_is_one(void **state) {
  (void)state;
  struct doctor_gpu_facts facts = {0};
  doctor_gather_gpu(&facts, root);
  assert_string_equal(facts.driver, "");
  assert_false(facts.peer_memory);
  assert_false(facts.channel);
  root_put("/dev/nvidia-caps-imex-channels/channel3", "");
  root_put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1\nGCC version: 13\n");
  root_put("/sys/module/nvidia_peermem/initstate", "live\n");
  doctor_gather_gpu(&facts, root);
  assert_string_equal(facts.driver, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1");
  assert_true(facts.peer_memory);
  assert_true(facts.channel);
}

static void settings_of_the_kernel_are_read_and_calls_tried(void **state) {
  (void)state;
  struct doctor_kernel_facts facts = {0};
  doctor_gather_kernel(&facts, root);
  assert_int_equal(facts.ptrace_scope, -1);
  root_put("/proc/sys/kernel/yama/ptrace_scope", "2\n");
  root_put("/proc/sys/kernel/io_uring_disabled", "1\n");
  doctor_gather_kernel(&facts, root);
  assert_int_equal(facts.ptrace_scope, 2);
  assert_int_equal(facts.io_uring_disabled, 1);
  if (access("/proc/sys/kernel/yama", F_OK) != 0 && geteuid() == 0 && process_vm_works("the parent's memory"))
    assert_int_equal(facts.read_parent, 0);
}

static void a_host_without_anything_is_read_too(void **state) {
  (void)state;
  struct doctor_facts *facts = calloc(1, sizeof *facts);
  assert_non_null(facts);
  doctor_gather_rdma(&facts->rdma, "/nonexistent");
  doctor_gather_memory(&facts->memory, "/nonexistent");
  doctor_gather_network(&facts->network, "/nonexistent");
  doctor_gather_kernel(&facts->kernel, "/nonexistent");
  struct doctor_report report = {0};
  doctor_judge(facts, &report);
  assert_false(report.failed);
  doctor_report_free(&report);
  free(facts);
}

static void answer(FILE *out) {
  fputs("version 7.1\ntransport a\ntransport b/c\n", out);
}

static void hang(FILE *out) {
  fputs("version 7.1\n", out);
  fflush(out);
  pause();
}

static void answer_and_stay(FILE *out) {
  answer(out);
  fflush(out);
  close(fileno(out));
  pause();
}

static void crash(FILE *out) {
  fputs("version 7.1\n", out);
  fflush(out);
  raise(SIGKILL); // any signal ends it; sanitizers let this one be
}

static void miss(FILE *out) {
  fputs("missing it is not there\n", out);
}

static void a_library_s_answer_is_taken(void **state) {
  (void)state;
  struct doctor_library_facts facts = {0};
  doctor_ask_library(&facts, answer, 30000);
  assert_true(facts.present && !facts.hung && !facts.signal);
  assert_string_equal(facts.version, "7.1");
  assert_string_equal(facts.transports, "a, b/c");
}

static void a_library_that_hangs_crashes_or_is_missing_is_reported(void **state) {
  (void)state;
  struct doctor_library_facts hung = {0}, stays = {0}, crashed = {0}, missing = {0};
  doctor_ask_library(&hung, hang, 200);
  assert_true(hung.present && hung.hung);
  doctor_ask_library(&stays, answer_and_stay, 1000);
  assert_true(stays.present && stays.hung);
  doctor_ask_library(&crashed, crash, 30000);
  assert_int_equal(crashed.signal, SIGKILL);
  assert_string_equal(crashed.version, "7.1");
  doctor_ask_library(&missing, miss, 30000);
  assert_false(missing.present);
  assert_string_equal(missing.missing, "it is not there");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(rdma_ports_and_their_gids_are_counted, make_root, root_remove),
      cmocka_unit_test_setup_teardown(memory_is_read_from_proc_and_limits, make_root, root_remove),
      cmocka_unit_test_setup_teardown(a_capability_of_a_user_namespace_locks_nothing, make_root, root_remove),
      cmocka_unit_test_setup_teardown(a_dev_shm_without_a_limit_is_not_taken_for_a_full_one, make_root, root_remove),
      cmocka_unit_test_setup_teardown(interfaces_are_those_of_sysfs_without_loopback, make_root, root_remove),
      cmocka_unit_test_setup_teardown(the_driver_is_read_where_there_is_one, make_root, root_remove),
      cmocka_unit_test_setup_teardown(settings_of_the_kernel_are_read_and_calls_tried, make_root, root_remove),
      cmocka_unit_test(a_host_without_anything_is_read_too),
      cmocka_unit_test(a_library_s_answer_is_taken),
      cmocka_unit_test(a_library_that_hangs_crashes_or_is_missing_is_reported),
  };
  return cmocka_run_group_tests_name("facts of a host", tests, NULL, NULL);
}
