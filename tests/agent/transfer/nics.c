// The NICs that an agent chooses by default, and how it explains the choice, on a recorded machine.
#include "cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "agent/support/pair.h"
#include "support/loop.h"
#include "support/rdma_host.h"

static struct topology_choice *host;

// What the plug-in of the tests was opened with.
static void opens_with(const char *expected) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  weft_agent_t *agent;
  options.name = "nics";
  options.transports = "ofi";
  assert_int_equal(weft_agent_open(&agent, &options), WEFT_ERR_UNSUPPORTED);
  if (!strstr(weft_last_error(), expected))
    fail_msg("\"%s\" has no \"%s\"", weft_last_error(), expected);
}

static void each_of_eight_opens_with_the_nics_of_its_gpu(void **state) {
  (void)state;
  static const char *const expected[] = {"rdmap85s0,rdmap87s0",   "rdmap86s0,rdmap88s0",   "rdmap110s0,rdmap112s0",
                                         "rdmap111s0,rdmap113s0", "rdmap135s0,rdmap137s0", "rdmap136s0,rdmap138s0",
                                         "rdmap160s0,rdmap162s0", "rdmap161s0,rdmap163s0"};
  for (int gpu = 0; gpu < 8; gpu++) {
    char text[64];
    rdma_host_show(host, gpu);
    snprintf(text, sizeof text, "opened with [nics=%s]", expected[gpu]);
    opens_with(text);
  }
}

static void what_was_said_stays(void **state) {
  (void)state;
  rdma_host_show(host, 5);
  setenv("WEFT_OFI_NICS", "rdmap85s0", 1);
  opens_with("opened with []");
  unsetenv("WEFT_OFI_NICS");
  opens_with("opened with [nics=rdmap136s0,rdmap138s0]");
}

// Over a transport that works, by the name of one that has a choice.
static void explains(const char *expected) {
  static struct transport named;
  struct pair pair;
  named = transport_loop;
  named.name = "ofi";
  const struct transport *const more[] = {&named, NULL};
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  pair_open(&pair, "", more, &options);
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 8, NULL);
  const char *text = weft_transfer_explain(transfer);
  if (expected ? !strstr(text, expected) : strstr(text, "NICs") != NULL)
    fail_msg("\"%s\", and wanted \"%s\"", text, expected ? expected : "nothing of NICs");
  pair_free(transfer);
  pair_close(&pair);
}

static void a_transfer_s_explanation_names_them(void **state) {
  (void)state;
  rdma_host_show(host, 5);
  explains("ofi: NICs: for the GPU at 0000:8c:00.0 rdmap136s0, rdmap138s0: of 4 NICs behind the same PCIe switch");
  setenv("WEFT_OFI_NICS", "rdmap85s0", 1);
  explains("ofi: NICs: WEFT_OFI_NICS says which: rdmap85s0\n");
  unsetenv("WEFT_OFI_NICS");
  topology_serve_root("/nowhere");
  explains(NULL);
}

static int make(void **state) {
  (void)state;
  host = rdma_host_make("p5en", 0);
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
      cmocka_unit_test(what_was_said_stays),
      cmocka_unit_test(a_transfer_s_explanation_names_them),
  };
  return cmocka_run_group_tests_name("NICs of an agent", tests, make, removed);
}
