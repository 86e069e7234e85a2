// What each check reports on good hosts and on hosts with faults. The hosts are made up.
#include "cmocka_all.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"

#define GIB (UINT64_C(1) << 30)

static struct topology_nic nics[2];
static struct topology_gpu gpus[2];
static struct topology_choice choice;

// A host with which nothing is wrong: two GPUs, two NICs, a peer that answers, a store.
static struct doctor_facts well(void) {
  static struct doctor_facts facts;
  memset(&facts, 0, sizeof facts);
  memset(nics, 0, sizeof nics);
  memset(gpus, 0, sizeof gpus);
  for (int i = 0; i < 2; i++) {
    snprintf(nics[i].rdma, sizeof nics[i].rdma, "mlx5_%d", i);
    nics[i].link = TOPOLOGY_LINK_UP;
    gpus[i] = (struct topology_gpu){.num_nics = 1, .distance = TOPOLOGY_PIX, .why = "mlx5_0: near"};
    facts.rdma.ports[i] =
        (struct doctor_port){.number = 1, .state = "4: ACTIVE", .layer = "Ethernet", .gids = 4, .routable = 2};
    snprintf(facts.rdma.ports[i].device, sizeof facts.rdma.ports[i].device, "mlx5_%d", i);
    facts.gpu.gpus[i].windows = facts.gpu.gpus[i].fabric = true;
  }
  choice = (struct topology_choice){.gpus = gpus, .nics = nics, .num_gpus = 2, .num_nics = 2, .known = true};
  facts.choice = &choice;
  snprintf(facts.gpu.driver, sizeof facts.gpu.driver, "NVRM version: 1");
  facts.gpu.peer_memory = facts.gpu.channel = true;
  facts.gpu.count = 2;
  facts.gpu.pairs = 1;
  facts.rdma.count = facts.rdma.verbs = facts.rdma.verbs_usable = 2;
  facts.memory = (struct doctor_memory_facts){.lockable = DOCTOR_UNLIMITED,
                                              .huge_page = 2 << 20,
                                              .huge_total = 8,
                                              .huge_free = 8,
                                              .shm = true,
                                              .shm_size = 16 * GIB,
                                              .shm_free = 16 * GIB,
                                              .files = 65536};
  facts.kernel.ptrace_scope = -1;
  facts.network.count = 1;
  facts.network.interfaces[0] = (struct doctor_interface){"eth0", "up", 9000, 100000};
  facts.peer = (struct doctor_peer_facts){.asked = true,
                                          .name = "node7",
                                          .port = "5555",
                                          .address = "10.0.0.7",
                                          .interface = "eth0",
                                          .interface_mtu = 9000,
                                          .path_mtu = 9000,
                                          .peer_mtu = 9000,
                                          .reach = DOCTOR_REACHED,
                                          .answered = true,
                                          .back = DOCTOR_REACHED,
                                          .bulk_sent = true,
                                          .bulk_came = true};
  facts.ucx = (struct doctor_library_facts){.present = true, .version = "1.13.1", .transports = "tcp/eth0"};
  facts.ofi = (struct doctor_library_facts){.present = true, .version = "1.17", .transports = "tcp;ofi_rxm"};
  for (size_t i = 0; i < DOCTOR_LIBRARIES; i++)
    facts.libraries[i] = (struct doctor_loaded){.name = "libz", .purpose = "it", .package = "zlib1g", .version = "1.2"};
  facts.cufile = (struct doctor_library_facts){.present = true, .version = "1.15"};
  facts.store = (struct doctor_store_facts){.asked = true, .url = "http://a:1", .version = "3.4.23"};
  return facts;
}

// Each makes a host worse in one thing.
typedef void worsen_fn(struct doctor_facts *facts);
#define WORSE(name, ...)                                                                                               \
  static void name(struct doctor_facts *facts) {                                                                       \
    (void)facts;                                                                                                       \
    __VA_ARGS__;                                                                                                       \
  }

WORSE(lose_driver, facts->gpu.driver[0] = '\0'; facts->gpu.count = 0)
WORSE(lose_gpus, facts->gpu.driver[0] = '\0'; facts->gpu.count = 0; choice.num_gpus = 0)
WORSE(lose_plugin, facts->gpu.count = 0; strcpy(facts->gpu.missing, "no plug-in"))
WORSE(lose_plugin_and_gpus, lose_gpus(facts); strcpy(facts->gpu.missing, "no plug-in"))
WORSE(break_gpu, strcpy(facts->gpu.gpus[1].error, "unknown error"))
WORSE(old_gpu, facts->gpu.gpus[1].windows = false)
WORSE(part_gpus, facts->gpu.pairs_apart = 1; strcpy(facts->gpu.apart, "0 and 1: no link"))
WORSE(lose_channel, facts->gpu.channel = false)
WORSE(lose_peermem, facts->gpu.peer_memory = false)
WORSE(no_choice, facts->choice = NULL; strcpy(facts->choice_error, "WEFT_NICS names x"))
WORSE(unknown_choice, choice.known = false)
WORSE(no_nic, choice.num_nics = 0)
WORSE(no_nic_for_gpu, gpus[1].num_nics = 0; strcpy(gpus[1].why, "all are down"))
WORSE(far_nic, gpus[1].distance = TOPOLOGY_SYS; strcpy(gpus[1].why, "mlx5_0: far"))
WORSE(one_link_down, nics[1].link = TOPOLOGY_LINK_DOWN)
WORSE(ib_link_down, nics[1].link = TOPOLOGY_LINK_DOWN; nics[1].infiniband = true)
WORSE(only_link_down, choice.num_nics = 1; nics[0].link = TOPOLOGY_LINK_DOWN)
WORSE(one_nic, choice.num_nics = 1)
WORSE(links_down, nics[0].link = nics[1].link = TOPOLOGY_LINK_DOWN)
WORSE(no_rdma, facts->rdma.count = 0)
WORSE(no_verbs, facts->rdma.verbs = facts->rdma.verbs_usable = 0)
WORSE(forbidden_verbs, facts->rdma.verbs_usable = 1)
WORSE(no_gids, facts->rdma.ports[1].gids = 0)
WORSE(no_roce_v2, facts->rdma.ports[1].routable = 0)
WORSE(port_down, strcpy(facts->rdma.ports[1].state, "1: DOWN"))
WORSE(no_subnet_manager, strcpy(facts->rdma.ports[1].layer, "InfiniBand");
      strcpy(facts->rdma.ports[1].state, "2: INIT"))
WORSE(lose_loopback, facts->network.loopback_down = true)
WORSE(small_mtu, facts->network.interfaces[0].mtu = 1500)
WORSE(tiny_mtu, facts->network.interfaces[0].mtu = 576)
WORSE(unknown_mtu, facts->network.interfaces[1] = (struct doctor_interface){"eth1", "up", 0, 0};
      facts->network.count = 2)
WORSE(interface_down, strcpy(facts->network.interfaces[0].state, "down"))
WORSE(little_lockable, facts->memory.lockable = 8 << 20)
WORSE(little_lockable_alone, facts->memory.lockable = 8 << 20; facts->rdma.count = 0)
WORSE(may_lock, facts->memory.lockable = 8 << 20; facts->memory.may_lock = true)
WORSE(may_lock_inside, facts->memory.lockable = 8 << 20; facts->memory.may_lock_inside = true)
WORSE(no_huge_pages, facts->memory.huge_total = facts->memory.huge_free = 0)
WORSE(used_huge_pages, facts->memory.huge_free = 0)
WORSE(no_shm, facts->memory.shm = false)
WORSE(full_shm, facts->memory.shm_free = 1 << 20)
WORSE(small_shm, facts->memory.shm_free = facts->memory.shm_size = 512 << 20)
WORSE(unlimited_shm, facts->memory.shm_free = facts->memory.shm_size = DOCTOR_UNLIMITED)
WORSE(few_files, facts->memory.files = 1024)
WORSE(yama, facts->kernel.ptrace_scope = 1; facts->kernel.read_parent = EPERM)
WORSE(no_ptrace, facts->kernel.read_parent = facts->kernel.read_child = EPERM)
WORSE(no_io_uring, facts->kernel.io_uring = ENOSYS)
WORSE(disabled_io_uring, facts->kernel.io_uring = EPERM; facts->kernel.io_uring_disabled = 2)
WORSE(filtered_io_uring, facts->kernel.io_uring = EPERM)
WORSE(no_pidfd, facts->kernel.pidfd = ENOSYS)
WORSE(no_futex, facts->kernel.futex_waitv = ENOSYS)
WORSE(no_library, facts->libraries[1].version[0] = '\0')
WORSE(no_ucx, facts->ucx.present = false; strcpy(facts->ucx.missing, "no such file"))
WORSE(hung_ucx, facts->ucx.hung = true)
WORSE(crashed_ofi, facts->ofi.signal = 11)
WORSE(empty_ofi, facts->ofi.transports[0] = '\0')
WORSE(no_cufile, facts->cufile.version[0] = '\0'; strcpy(facts->cufile.missing, "there is no cuFile"))
WORSE(shut_cufile, strcpy(facts->cufile.missing, "CU_FILE_DRIVER_NOT_INITIALIZED (5001)"))
WORSE(hung_cufile, facts->cufile.hung = true)
WORSE(crashed_cufile, facts->cufile.signal = 11)
WORSE(no_store, strcpy(facts->store.error, "unreachable"))
WORSE(unknown_peer, strcpy(facts->peer.error, "Name or service not known"))
WORSE(refusing_peer, facts->peer.reach = DOCTOR_REFUSED; facts->peer.answered = false)
WORSE(silent_peer, facts->peer.reach = DOCTOR_SILENT; facts->peer.answered = false)
WORSE(far_peer, facts->peer.reach = DOCTOR_UNREACHABLE; facts->peer.reach_errno = EHOSTUNREACH;
      facts->peer.answered = false)
WORSE(mute_peer, facts->peer.answered = false)
WORSE(other_peer, facts->peer.answered = false; facts->peer.wrong_answer = true)
WORSE(one_way_peer, facts->peer.back = DOCTOR_SILENT)
WORSE(one_way_refused, facts->peer.back = DOCTOR_REFUSED)
WORSE(untried_way, facts->peer.back = DOCTOR_NOT_TRIED)
WORSE(black_hole, facts->peer.bulk_came = false)
WORSE(black_hole_of_ipv6, black_hole(facts); strcpy(facts->peer.address, "fd00::7"))
WORSE(black_hole_of_unknown_size, black_hole_of_ipv6(facts); facts->peer.interface_mtu = 0)
WORSE(other_mtu, facts->peer.peer_mtu = 1500)
WORSE(tunnel, facts->peer.path_mtu = 1400)

static const struct {
  const char *check;
  worsen_fn *worsen;
  enum doctor_grade grade;
  const char *found, *fix; // parts of the sentences; NULL: there is none
} cases[] = {
    {"driver", lose_driver, DOCTOR_PROBLEM, "2 NVIDIA GPUs are on the PCI bus, but there is no driver",
     "modprobe nvidia"},
    {"driver", lose_gpus, DOCTOR_NOTE, "no NVIDIA GPU", NULL},
    {"gpus", lose_plugin, DOCTOR_PROBLEM, "no plug-in", "libweft_cuda"},
    {"gpus", lose_plugin_and_gpus, DOCTOR_NOTE, "no plug-in", NULL},
    {"gpus", break_gpu, DOCTOR_PROBLEM, "GPU 1 does not answer: unknown error", "dmesg"},
    {"gpus", old_gpu, DOCTOR_NOTE, "cannot share its memory", "virtual memory"},
    {"peer-access", part_gpus, DOCTOR_PROBLEM, "1 of 1 pair of GPUs does not reach", "nvidia-smi topo"},
    {"fabric", lose_channel, DOCTOR_NOTE, "there is none that this process may use",
     "mknod /dev/nvidia-caps-imex-channels/channel0"},
    {"gpu-rdma", lose_peermem, DOCTOR_NOTE, "nvidia_peermem is not loaded", "modprobe nvidia-peermem"},
    {"nics", no_choice, DOCTOR_PROBLEM, "WEFT_NICS names x", "WEFT_NICS"},
    {"nics", unknown_choice, DOCTOR_NOTE, "cannot be read", "libhwloc-dev"},
    {"nics", no_nic, DOCTOR_NOTE, "no NIC on the PCI bus", NULL},
    {"nics", no_nic_for_gpu, DOCTOR_NOTE, "GPU 1 has no NIC: all are down", NULL},
    {"nics", far_nic, DOCTOR_NOTE, "GPU 1: mlx5_0: far", "near it"},
    {"links", one_link_down, DOCTOR_NOTE, "mlx5_1 at ", "ip link set"},
    {"links", ib_link_down, DOCTOR_NOTE, "mlx5_1 at ", "subnet manager"},
    {"links", links_down, DOCTOR_PROBLEM, "all 2 NICs are down", NULL},
    {"links", only_link_down, DOCTOR_PROBLEM, "the link of the only NIC is down", NULL},
    {"links", one_nic, DOCTOR_OK, "1 of 1 link is up", NULL},
    {"rdma", no_rdma, DOCTOR_NOTE, "no RDMA device", NULL},
    {"rdma", no_verbs, DOCTOR_PROBLEM, "no device file", "modprobe ib_uverbs"},
    {"rdma", forbidden_verbs, DOCTOR_PROBLEM, "may not open 1 of the 2 device files", "chmod"},
    {"gids", no_gids, DOCTOR_PROBLEM, "mlx5_1 port 1 is active but has no GID", "ip address add"},
    {"gids", no_roce_v2, DOCTOR_NOTE, "4 GIDs, but none for RoCE v2", "cma_roce_mode"},
    {"gids", port_down, DOCTOR_NOTE, "not active (1: DOWN)", NULL},
    {"gids", no_subnet_manager, DOCTOR_PROBLEM, "link but no address", "opensm"},
    {"loopback", lose_loopback, DOCTOR_PROBLEM, "lo is down", "ip link set dev lo up"},
    {"mtu", small_mtu, DOCTOR_NOTE, "100 Gbit/s and an MTU of 1500", "mtu 9000"},
    {"mtu", tiny_mtu, DOCTOR_PROBLEM, "MTU of 576", "mtu 1500"},
    {"mtu", unknown_mtu, DOCTOR_OK, "eth0: MTU 9000", NULL},
    {"mtu", interface_down, DOCTOR_NOTE, "no network interface but loopback is up", "ip link"},
    {"memlock", little_lockable, DOCTOR_PROBLEM, "8 MiB", "memlock unlimited"},
    {"memlock", little_lockable_alone, DOCTOR_NOTE, "8 MiB", "memlock unlimited"},
    {"memlock", may_lock, DOCTOR_OK, "CAP_IPC_LOCK", NULL},
    {"memlock", may_lock_inside, DOCTOR_PROBLEM, "CAP_IPC_LOCK is of a user namespace", "memlock unlimited"},
    {"huge-pages", no_huge_pages, DOCTOR_NOTE, "no huge pages", "vm.nr_hugepages"},
    {"huge-pages", used_huge_pages, DOCTOR_NOTE, "all 8 huge pages are in use", "vm.nr_hugepages"},
    {"shm", no_shm, DOCTOR_PROBLEM, "/dev/shm is missing", "mount -t tmpfs"},
    {"shm", full_shm, DOCTOR_PROBLEM, "1 of 16384 MiB", "--shm-size"},
    {"shm", small_shm, DOCTOR_NOTE, "512 MiB", "--shm-size"},
    {"shm", unlimited_shm, DOCTOR_OK, "no limit", NULL},
    {"files", few_files, DOCTOR_NOTE, "1024 files", "ulimit -n"},
    {"cma", yama, DOCTOR_NOTE, "ptrace_scope is 1: a process may read the memory of its children only",
     "sysctl kernel.yama.ptrace_scope=0"},
    {"cma", no_ptrace, DOCTOR_NOTE, "Operation not permitted", "SYS_PTRACE"},
    {"io-uring", no_io_uring, DOCTOR_NOTE, "Function not implemented", "Linux 5.6"},
    {"io-uring", disabled_io_uring, DOCTOR_NOTE, "Operation not permitted", "kernel.io_uring_disabled=0"},
    {"io-uring", filtered_io_uring, DOCTOR_NOTE, "Operation not permitted", "seccomp"},
    {"pidfd", no_pidfd, DOCTOR_NOTE, "pidfd_open fails", "Linux 5.3"},
    {"futex", no_futex, DOCTOR_NOTE, "futex_waitv fails", "Linux 5.16"},
    {"libraries", no_library, DOCTOR_NOTE, "libz cannot be loaded", "zlib1g"},
    {"ucx", no_ucx, DOCTOR_NOTE, "UCX cannot be loaded: no such file", "libucx0"},
    {"ucx", hung_ucx, DOCTOR_PROBLEM, "does not answer in time", "libucx0"},
    {"libfabric", crashed_ofi, DOCTOR_PROBLEM, "ended by signal 11", "libfabric1"},
    {"libfabric", empty_ofi, DOCTOR_PROBLEM, "none of its transports works", "libfabric1"},
    {"cufile", no_cufile, DOCTOR_NOTE, "there is no cuFile", "libcufile"},
    {"cufile", shut_cufile, DOCTOR_NOTE, "cannot be used: CU_FILE_DRIVER_NOT_INITIALIZED (5001)", "modprobe nvidia-fs"},
    {"cufile", hung_cufile, DOCTOR_PROBLEM, "opening the driver of cuFile 1.15 hangs", "WEFT_CUFILE=off"},
    {"cufile", crashed_cufile, DOCTOR_PROBLEM, "ends the process by a signal", "do not crash too"},
    {"store", no_store, DOCTOR_PROBLEM, "unreachable", "weft serve"},
    {"peer", unknown_peer, DOCTOR_PROBLEM, "Name or service not known", "resolv.conf"},
    {"peer", refusing_peer, DOCTOR_PROBLEM, "refuses connections at port 5555", "weft doctor --listen 5555"},
    {"peer", silent_peer, DOCTOR_PROBLEM, "does not answer at port 5555", "TCP port 5555"},
    {"peer", far_peer, DOCTOR_PROBLEM, "No route to host", "ip route get 10.0.0.7"},
    {"peer", mute_peer, DOCTOR_PROBLEM, "sends nothing", "--listen"},
    {"peer", other_peer, DOCTOR_PROBLEM, "has another token", "--listen"},
    {"peer-back", one_way_peer, DOCTOR_PROBLEM, "gets no answer", "through"},
    {"peer-back", one_way_refused, DOCTOR_PROBLEM, "is refused", "through"},
    {"peer-back", untried_way, DOCTOR_NOTE, "did not try", "through"},
    {"peer-mtu", black_hole, DOCTOR_PROBLEM, "256 KiB do not", "ping -M do -s 8972"},
    {"peer-mtu", black_hole_of_ipv6, DOCTOR_PROBLEM, "256 KiB do not", "ping -M do -s 8952 fd00::7"},
    {"peer-mtu", black_hole_of_unknown_size, DOCTOR_PROBLEM, "256 KiB do not", "ping -M do -s 1452 fd00::7"},
    {"peer-mtu", other_mtu, DOCTOR_NOTE, "the MTU is 9000 at eth0 here, and 1500 at node7", "mtu 9000"},
    {"peer-mtu", tunnel, DOCTOR_NOTE, "packets of at most 1400 bytes", "tunnel"},
};

static bool contains(const char *text, const char *part) {
  return part ? text && strstr(text, part) : !text;
}

// The check's worst finding is the one that is expected.
static void each_fault_is_found_by_its_check(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct doctor_facts facts = well();
    struct doctor_report report = {0};
    cases[i].worsen(&facts);
    doctor_judge(&facts, &report);
    enum doctor_grade worst = DOCTOR_OK;
    bool said = false;
    for (size_t f = 0; f < report.count; f++) {
      const struct doctor_finding *at = &report.findings[f];
      if (strcmp(at->check, cases[i].check) != 0)
        continue;
      worst = at->grade > worst ? at->grade : worst;
      said |= at->grade == cases[i].grade && contains(at->found, cases[i].found) && contains(at->fix, cases[i].fix);
      if (at->grade != DOCTOR_OK)
        assert_non_null(at->means);
    }
    if (!said || worst != cases[i].grade) {
      for (size_t f = 0; f < report.count; f++)
        print_error("%s %s: %s (%s)\n", doctor_grade_name(report.findings[f].grade), report.findings[f].check,
                    report.findings[f].found, report.findings[f].fix ? report.findings[f].fix : "-");
      fail_msg("case %zu: %s does not say \"%s\"", i, cases[i].check, cases[i].found);
    }
    doctor_report_free(&report);
  }
}

static void a_host_that_is_well_has_only_good_findings_one_of_each_check(void **state) {
  (void)state;
  struct doctor_facts facts = well();
  struct doctor_report report = {0};
  doctor_judge(&facts, &report);
  for (const struct doctor_check *check = doctor_checks; check->name; check++) {
    size_t good = 0;
    for (size_t f = 0; f < report.count; f++)
      good += strcmp(report.findings[f].check, check->name) == 0 && report.findings[f].grade == DOCTOR_OK;
    if (good == 0)
      fail_msg("%s has nothing good to say", check->name);
  }
  assert_int_equal(doctor_count(&report, DOCTOR_OK), report.count);
  doctor_report_free(&report);
}

// Nothing is wrong with such a host, so it is no fault, but it is reported.
static void what_weft_does_without_is_printed_with_the_version(void **state) {
  (void)state;
  static const char *const versions[][2] = {{"1.15.0", NULL}, {"1.18.1", "its POSIX shared memory"}, {"1.19.0", NULL}};
  for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
    struct doctor_facts facts = well();
    struct doctor_report report = {0};
    snprintf(facts.ucx.version, sizeof facts.ucx.version, "%s", versions[i][0]);
    doctor_judge(&facts, &report);
    const struct doctor_finding *told = NULL;
    for (size_t f = 0; f < report.count; f++) {
      const struct doctor_finding *at = &report.findings[f];
      if (strcmp(at->check, "ucx") == 0 && strstr(at->found, "Weft does not use"))
        told = at;
    }
    assert_int_equal(told != NULL, versions[i][1] != NULL);
    if (told) {
      assert_int_equal(told->grade, DOCTOR_OK);
      assert_non_null(strstr(told->found, versions[i][1]));
      assert_non_null(strstr(told->means, "ends the process"));
    }
    doctor_report_free(&report);
  }
}

static void every_check_has_a_fault_that_it_finds(void **state) {
  (void)state;
  for (const struct doctor_check *check = doctor_checks; check->name; check++) {
    bool tested = false;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
      tested |= strcmp(cases[i].check, check->name) == 0 && cases[i].grade != DOCTOR_OK;
    if (!tested)
      fail_msg("%s has no fault here", check->name);
  }
}

static void what_was_not_asked_is_not_judged(void **state) {
  (void)state;
  struct doctor_facts facts = well();
  struct doctor_report report = {0};
  facts.peer.asked = facts.peer.answered = facts.store.asked = false;
  doctor_judge(&facts, &report);
  for (size_t f = 0; f < report.count; f++) {
    assert_null(strcmp(report.findings[f].check, "store") == 0 ? report.findings[f].check : NULL);
    assert_int_not_equal(
        strncmp(report.findings[f].check, "peer-", 5) == 0 && strcmp(report.findings[f].check, "peer-access") != 0, 1);
  }
  doctor_report_free(&report);
}

static void a_report_is_reported_as_json(void **state) {
  (void)state;
  struct doctor_facts facts = well();
  struct doctor_report report = {0};
  few_files(&facts);
  no_shm(&facts);
  doctor_judge(&facts, &report);
  json_t *description = doctor_report_describe(&report);
  assert_true(json_is_false(json_object_get(description, "ok")));
  assert_int_equal(json_integer_value(json_object_get(description, "problems")), 1);
  assert_int_equal(json_integer_value(json_object_get(description, "notes")), 1);
  assert_int_equal(json_array_size(json_object_get(description, "findings")), report.count);
  json_decref(description);
  doctor_report_free(&report);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_fault_is_found_by_its_check),
      cmocka_unit_test(a_host_that_is_well_has_only_good_findings_one_of_each_check),
      cmocka_unit_test(what_weft_does_without_is_printed_with_the_version),
      cmocka_unit_test(every_check_has_a_fault_that_it_finds),
      cmocka_unit_test(what_was_not_asked_is_not_judged),
      cmocka_unit_test(a_report_is_reported_as_json),
  };
  return cmocka_run_group_tests_name("judgement of a host", tests, NULL, NULL);
}
