// Memory of a GPU that its owner frees while a peer does not know yet that it has gone.
#include "cmocka_all.h"

#include "agent/support/pair.h"
#include "support/wait.h"

enum { BYTES = 1 << 16 };

// The peer is in the same process, and is not driven meanwhile, so that it gets no message. Its post may succeed, with
// bytes that nobody reads any more; but it does not access memory that is not mapped.
static void test_a_late_post(void **state) {
  (void)state;
  struct pair pair;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  pair_open(&pair, "shm,cuda", NULL, &options);
  weft_region_t region;
  void *memory;
  assert_int_equal(weft_agent_allocate(pair.b.agent, WEFT_MEMORY_CUDA, BYTES, 0, &region, &memory), 0);
  pair_acquaint(&pair);
  struct weft_descriptor there = {(uintptr_t)memory, BYTES, region};
  weft_dlist_t *remote, *local = pair_list(&pair.a, &pair.a, 0, BYTES);
  weft_transfer_t *transfer;
  assert_int_equal(weft_dlist_create(pair.a.agent, pair.a.peer, &there, 1, &remote), 0);
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, NULL, &transfer), 0);
  assert_int_equal(weft_agent_deregister(pair.b.agent, region), 0);
  int rc = weft_transfer_post(transfer);
  if (rc == 0)
    rc = weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS);
  assert_true(rc == 0 || rc == WEFT_ERR_NOT_FOUND);
  pair_free(transfer);
  pair_close(&pair);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_late_post)};
  return cmocka_run_group_tests_name("agent_freed_memory", tests, NULL, NULL);
}
