// The NICs that a rank chooses by default for its transport to other hosts, on a recorded machine: those of its own
// GPU, although the rank sees all GPUs.
#include "cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "ep/core/engine.h"
#include "ep/remote/remote_link.h"
#include "support/rdma_host.h"

static struct topology_choice *host;

// Uses a transport that only reports its NICs; nothing else of a rank is needed for this.
static void opens_with(int32_t device, const char *expected) {
  weft_ep_t *ep = calloc(1, sizeof *ep);
  struct ep_net *net = NULL;
  assert_non_null(ep);
  ep->device = device;
  ep->capacity = 8;
  pthread_mutex_init(&ep->net_lock, NULL);
  assert_int_equal(ep_net_open(ep, "ofi", &ep_remote_events, &net), WEFT_ERR_UNSUPPORTED);
  pthread_mutex_destroy(&ep->net_lock);
  free(ep);
  if (!strstr(weft_last_error(), expected))
    fail_msg("\"%s\" has no \"%s\"", weft_last_error(), expected);
}

static void each_of_eight_opens_with_the_nics_of_its_gpu(void **state) {
  (void)state;
  static const char *const expected[] = {"rdmap86s0,rdmap87s0",   "rdmap101s0,rdmap102s0", "rdmap116s0,rdmap117s0",
                                         "rdmap131s0,rdmap132s0", "rdmap146s0,rdmap147s0", "rdmap161s0,rdmap162s0",
                                         "rdmap176s0,rdmap177s0", "rdmap191s0,rdmap192s0"};
  for (int rank = 0; rank < 8; rank++) {
    char text[64];
    snprintf(text, sizeof text, "opened with [nics=%s]", expected[rank]);
    opens_with(rank, text);
  }
}

static void chosen_nics_stay(void **state) {
  (void)state;
  setenv("WEFT_OFI_NICS", "rdmap86s0", 1);
  opens_with(3, "opened with []");
  unsetenv("WEFT_OFI_NICS");
}

static void a_rank_on_host_memory_gets_none_for_a_gpu(void **state) {
  (void)state;
  setenv("WEFT_NICS", "rdmap86s0", 1); // too late: the host is looked at once
  opens_with(-1, "opened with [");
  assert_null(strstr(weft_last_error(), "ibp"));
  unsetenv("WEFT_NICS");
}

static int make(void **state) {
  (void)state;
  host = rdma_host_make("p6_b300", 0);
  return 0;
}

static int removed(void **state) {
  (void)state;
  rdma_host_remove(host);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_of_eight_opens_with_the_nics_of_its_gpu),
      cmocka_unit_test(chosen_nics_stay),
      cmocka_unit_test(a_rank_on_host_memory_gets_none_for_a_gpu),
  };
  return cmocka_run_group_tests_name("NICs of a rank", tests, make, removed);
}
