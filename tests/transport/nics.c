// The NICs that a worker chooses by default, on recorded machines with eight GPUs: nics MACHINE.
#include "cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "support/rdma_host.h"
#include "transport/nics.h"

enum { GPUS = 8 };

static const struct machine {
  const char *name;
  const char *of[GPUS]; // each GPU's
} machines[] = {
    {"p4d",
     {"rdmap16s27", "rdmap16s27", "rdmap32s27", "rdmap32s27", "rdmap144s27", "rdmap144s27", "rdmap160s27",
      "rdmap160s27"}},
    {"p5en",
     {"rdmap85s0,rdmap87s0", "rdmap86s0,rdmap88s0", "rdmap110s0,rdmap112s0", "rdmap111s0,rdmap113s0",
      "rdmap135s0,rdmap137s0", "rdmap136s0,rdmap138s0", "rdmap160s0,rdmap162s0", "rdmap161s0,rdmap163s0"}},
    {"p6_b200",
     {"rdmap79s0", "rdmap80s0", "rdmap96s0", "rdmap97s0", "rdmap113s0", "rdmap114s0", "rdmap132s0", "rdmap133s0"}},
    {"p6_b300",
     {"rdmap86s0,rdmap87s0", "rdmap101s0,rdmap102s0", "rdmap116s0,rdmap117s0", "rdmap131s0,rdmap132s0",
      "rdmap146s0,rdmap147s0", "rdmap161s0,rdmap162s0", "rdmap176s0,rdmap177s0", "rdmap191s0,rdmap192s0"}},
};

static const struct machine *machine = &machines[1];
static struct topology_choice *host;
static const struct transport ucx = {.name = "ucx"}, ofi = {.name = "ofi"}, shm = {.name = "shm"};

static void gets(const struct transport *transport, int gpu, const char *expected) {
  struct transport_nics nics;
  transport_nics_choose(transport, gpu, &nics);
  if (!expected) {
    assert_null(nics.settings[0]);
    assert_string_equal(nics.wish, "");
    return;
  }
  assert_ptr_equal(nics.settings[0], nics.wish);
  assert_null(nics.settings[1]);
  assert_memory_equal(nics.wish, "nics=", 5);
  assert_string_equal(nics.wish + 5, expected);
}

static void says(const struct transport *transport, int gpu, const char *expected) {
  struct transport_nics nics;
  transport_nics_choose(transport, gpu, &nics);
  if (!strstr(nics.why, expected))
    fail_msg("\"%s\" says nothing of \"%s\"", nics.why, expected);
}

static void each_rank_gets_the_nics_of_its_gpu(void **state) {
  (void)state;
  for (int gpu = 0; gpu < GPUS; gpu++) {
    gets(&ofi, gpu, machine->of[gpu]);
    gets(&ucx, gpu, machine->of[gpu]);
    says(&ofi, gpu, host->gpus[gpu].address);
    says(&ofi, gpu, host->gpus[gpu].why);
  }
  gets(&shm, 0, NULL);
  says(&shm, 0, "");
}

static void a_process_that_sees_one_gpu_gets_its_nics(void **state) {
  (void)state;
  for (int gpu = 0; gpu < GPUS; gpu++) {
    rdma_host_show(host, gpu);
    gets(&ofi, TRANSPORT_ANY_GPU, machine->of[gpu]);
  }
  rdma_host_show(host, -1);
}

// The fake's current device is the one that FAKE_CURRENT names.
static void one_that_sees_all_gets_all_its_current_gpu_s_first(void **state) {
  (void)state;
  for (int current = 0; current < GPUS; current++) {
    char number[16];
    struct transport_nics nics;
    snprintf(number, sizeof number, "%d", current);
    setenv("FAKE_CURRENT", number, 1);
    transport_nics_choose(&ucx, TRANSPORT_ANY_GPU, &nics);
    assert_int_equal(strncmp(nics.wish + 5, machine->of[current], strlen(machine->of[current])), 0);
    for (int gpu = 0; gpu < GPUS; gpu++)
      assert_non_null(strstr(nics.wish, machine->of[gpu]));
    assert_non_null(strstr(nics.why, "for the 8 GPUs"));
  }
  unsetenv("FAKE_CURRENT");
}

static void what_a_user_says_goes_before(void **state) {
  (void)state;
  static const struct {
    const struct transport *transport, *other;
    const char *variable;
  } voices[] = {{&ucx, &ofi, "UCX_NET_DEVICES"},   {&ofi, &ucx, "WEFT_OFI_NICS"}, {&ofi, &ucx, "FI_VERBS_DEVICE_NAME"},
                {&ofi, &ucx, "FI_VERBS_IFACE"},    {&ofi, &ucx, "FI_EFA_IFACE"},  {&ofi, &ucx, "FI_CXI_DEVICE_NAME"},
                {&ofi, &ucx, "FI_OPX_HFI_SELECT"}, {&ofi, &ucx, "PSM3_NIC"}};
  for (size_t i = 0; i < sizeof voices / sizeof *voices; i++) {
    setenv(voices[i].variable, "some_nic", 1);
    gets(voices[i].transport, 3, NULL);
    says(voices[i].transport, 3, "some_nic");
    says(voices[i].transport, 3, voices[i].variable);
    gets(voices[i].other, 3, machine->of[3]);
    setenv(voices[i].variable, "", 1);
    gets(voices[i].transport, 3, machine->of[3]);
    unsetenv(voices[i].variable);
  }
  setenv("FI_PROVIDER", "efa", 1); // says which provider, not which NIC
  gets(&ofi, 3, machine->of[3]);
  unsetenv("FI_PROVIDER");
}

// A GPU that hwloc does not know, or none: what can be used, or what is near; here the test's processors may be of one
// node of the recorded machine or of both.
static void without_a_gpu_it_follows_from_the_processors(void **state) {
  (void)state;
  struct transport_nics nics;
  transport_nics_choose(&ofi, TRANSPORT_NO_GPU, &nics);
  assert_null(strstr(nics.wish, "ibp"));
  assert_null(strstr(nics.why, "GPU"));
  assert_true(*nics.why);
  setenv("FAKE_PCI", "0000:ff:1f.7", 1);
  struct transport_nics unknown;
  transport_nics_choose(&ofi, TRANSPORT_ANY_GPU, &unknown);
  assert_string_equal(unknown.wish, nics.wish);
  assert_string_equal(unknown.why, nics.why);
  rdma_host_show(host, -1);
}

static int make(void **state) {
  (void)state;
  host = rdma_host_make(machine->name, 0);
  return host->num_gpus == GPUS ? 0 : -1;
}

static int removed(void **state) {
  (void)state;
  rdma_host_remove(host);
  return 0;
}

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
    if (argc > 1 && strcmp(argv[1], machines[i].name) == 0)
      machine = &machines[i];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_rank_gets_the_nics_of_its_gpu),
      cmocka_unit_test(a_process_that_sees_one_gpu_gets_its_nics),
      cmocka_unit_test(one_that_sees_all_gets_all_its_current_gpu_s_first),
      cmocka_unit_test(what_a_user_says_goes_before),
      cmocka_unit_test(without_a_gpu_it_follows_from_the_processors),
  };
  return cmocka_run_group_tests_name(machine->name, tests, make, removed);
}
