// Errors that are found when a transfer is made, before any data moves: bad descriptors, pairs and memory, and writes
// to read-only memory. Each error names what was wrong.
#include <string.h>
#include <sys/resource.h>

#include "cmocka_all.h"

#include "agent/support/pair.h"
#include "support/loop.h"

static struct pair pair;

static int set_up(void **state) {
  (void)state;
  static const struct transport *more[2] = {&transport_loop, NULL};
  loop_reset();
  pair_open(&pair, "", more, NULL);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  pair_close(&pair);
  return 0;
}

static void bad_descriptors_are_refused(void **state) {
  (void)state;
  weft_dlist_t *list;
  uint64_t base = (uintptr_t)pair.a.memory;
  struct weft_descriptor good = {base, 10, 0}, bad[] = {
                                                   {base, 0, 0},                               // no length
                                                   {base + PAIR_BYTES - 5, 10, 0},             // over the end
                                                   {base - 1, 10, 0},                          // before the beginning
                                                   {base, UINT64_MAX, 0},                      // beyond all addresses
                                                   {UINT64_MAX, 1, 0},                         //
                                                   {base + PAIR_BYTES - 5, 10, pair.a.region}, // named, over the end
                                                   {base, 10, 999},                            // no such region
                                               };
  int codes[] = {WEFT_ERR_INVALID, WEFT_ERR_NOT_FOUND, WEFT_ERR_NOT_FOUND, WEFT_ERR_INVALID,
                 WEFT_ERR_INVALID, WEFT_ERR_INVALID,   WEFT_ERR_NOT_FOUND};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    struct weft_descriptor two[] = {good, bad[i]};
    assert_int_equal(weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, two, 2, &list), codes[i]);
    assert_non_null(strstr(weft_last_error(), "descriptor 1"));
  }
  assert_int_equal(weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, &good, 0, &list), WEFT_ERR_INVALID);
  assert_int_equal(weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, &good, UINT32_MAX, &list), WEFT_ERR_LIMIT);
  assert_int_equal(weft_dlist_create(pair.a.agent, 12345, &good, 1, &list), WEFT_ERR_NOT_FOUND);
}

static void pairs_that_do_not_fit_are_refused(void **state) {
  (void)state;
  weft_dlist_t *local = pair_list(&pair.a, &pair.a, 0, 100), *remote = pair_list(&pair.a, &pair.b, 0, 100);
  weft_dlist_t *longer = pair_list(&pair.a, &pair.b, 0, 101);
  weft_transfer_t *transfer;
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, longer, NULL, &transfer),
                   WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "pair 0"));
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, remote, remote, NULL, &transfer),
                   WEFT_ERR_INVALID);
  assert_int_equal(weft_transfer_create(pair.a.agent, (enum weft_transfer_op)7, local, remote, NULL, &transfer),
                   WEFT_ERR_INVALID);
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  struct weft_transfer_run run = {.local_stride = UINT32_MAX, .count = UINT32_MAX};
  options.runs = &run;
  options.num_runs = 1;
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer),
                   WEFT_ERR_INVALID);
  run = (struct weft_transfer_run){.count = UINT32_MAX}; // four billion times the same pair
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer),
                   WEFT_ERR_LIMIT);
  run = (struct weft_transfer_run){.count = 0};
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer),
                   WEFT_ERR_INVALID);
  const struct weft_transfer_run beyond[] = {
      {.local_first = 1, .count = 1},
      {.remote_first = 1, .count = 1},
      {.local_stride = 1, .count = 2},
      {.remote_stride = 1, .count = 2},
  };
  for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) { // each list has one descriptor
    run = beyond[i];
    assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer),
                     WEFT_ERR_INVALID);
    assert_non_null(strstr(weft_last_error(), i % 2 == 0 ? "the local list" : "the remote list"));
  }
  uint32_t index = 1;
  options = (struct weft_transfer_options)WEFT_TRANSFER_OPTIONS_INIT;
  options.local_index = &index;
  options.num_index = 1;
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer),
                   WEFT_ERR_INVALID);
  options.remote_index = &index;
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer),
                   WEFT_ERR_INVALID);
  // A number without its array is no request for all descriptors.
  options = (struct weft_transfer_options){.size = sizeof options, .num_index = 1};
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer),
                   WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "num_index is 1"));
  options = (struct weft_transfer_options){.size = sizeof options, .num_runs = 2};
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer),
                   WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "num_runs is 2"));
  for (int i = 0; i < 3; i++)
    assert_int_equal(weft_dlist_free(i == 0 ? local : i == 1 ? remote : longer), 0);
}

static void bad_memory_is_refused(void **state) {
  (void)state;
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  weft_region_t region;
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &region), WEFT_ERR_INVALID);
  memory.address = (void *)(uintptr_t)(UINT64_MAX - 4);
  memory.length = 100;
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &region), WEFT_ERR_INVALID);
  memory.kind = WEFT_MEMORY_OBJECT;
  memory.path = "nobucket";
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &region), WEFT_ERR_INVALID);
  memory.size = 3;
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &region), WEFT_ERR_INVALID);

  // What {.size = ...} leaves at 0 is not standard input, and a number without its flag is a mistake.
  memory = (struct weft_agent_memory){.size = sizeof memory, .kind = WEFT_MEMORY_FILE};
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &region), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "WEFT_MEMORY_FD"));
  memory.path = "/dev/null";
  memory.fd = 7;
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &region), WEFT_ERR_INVALID);
  memory = (struct weft_agent_memory){.size = sizeof memory, .address = pair.a.memory, .length = 64, .device = 1};
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &region), WEFT_ERR_INVALID);
  memory.device = 0;
  memory.flags = 1u << 20;
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &region), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "0x100000"));
}

// Beyond it the kernel would kill the process.
static void the_file_size_limit_is_reported(void **state) {
  (void)state;
  struct rlimit before, little;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  little = (struct rlimit){PAIR_BYTES, before.rlim_max};
  weft_region_t region;
  void *address;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
  int above = weft_agent_allocate(pair.a.agent, WEFT_MEMORY_HOST, PAIR_BYTES + 1, -1, &region, &address);
  bool told = strstr(weft_last_error(), "ulimit -f") != NULL;
  int below = weft_agent_allocate(pair.a.agent, WEFT_MEMORY_HOST, PAIR_BYTES, -1, &region, &address);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(above, WEFT_ERR_LIMIT);
  assert_true(told);
  assert_int_equal(below, 0);
}

static void read_only_is_kept(void **state) {
  (void)state;
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  static uint8_t bytes[64];
  memory.address = bytes;
  memory.length = sizeof bytes;
  memory.flags = WEFT_MEMORY_READ_ONLY;
  weft_region_t region;
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &region), 0);
  struct weft_descriptor one = {(uintptr_t)bytes, 64, 0};
  weft_dlist_t *local, *remote = pair_list(&pair.a, &pair.b, 0, 64);
  assert_int_equal(weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, &one, 1, &local), 0);
  weft_transfer_t *transfer;
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_READ, local, remote, NULL, &transfer),
                   WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "read-only"));
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, NULL, &transfer), 0);
  pair_free(transfer);
}

int main(void) {
#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(bad_descriptors_are_refused), CASE(pairs_that_do_not_fit_are_refused),
      CASE(bad_memory_is_refused),       CASE(the_file_size_limit_is_reported),
      CASE(read_only_is_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
