// What a profiler sees of transfers: one range for each post, which ends with the transfer, also after an error. The
// profiler is tests/support/nvtx_tool.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "agent/support/pair.h"
#include "support/loop.h"
#include "support/temporary.h"

#ifdef WEFT_NVTX

enum { MAX_RANGES = 64 };

struct range {
  uint64_t id, bytes;
  char domain[32], name[32];
  uint32_t ends;
};

static const struct transport *more[2] = {&transport_loop, NULL};
static struct range ranges[MAX_RANGES];
static uint32_t num_ranges;
static char path[128];
static struct pair pair;

// Reads all that was written down so far.
static void read_ranges(void) {
  char line[256];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  num_ranges = 0;
  while (fgets(line, sizeof line, file)) {
    int pid;
    unsigned long long id, bytes;
    struct range *range = &ranges[num_ranges];
    if (sscanf(line, "%d start %llu %llu %31s %31[^\n]", &pid, &id, &bytes, range->domain, range->name) == 5) {
      assert_true(num_ranges < MAX_RANGES - 1);
      range->id = id;
      range->bytes = bytes;
      range->ends = 0;
      num_ranges++;
      continue;
    }
    assert_int_equal(sscanf(line, "%d end %llu", &pid, &id), 2);
    for (uint32_t i = 0; i < num_ranges; i++)
      ranges[i].ends += ranges[i].id == id;
  }
  fclose(file);
}

static void expect_last(const char *name, uint64_t bytes, uint32_t ends) {
  read_ranges();
  assert_true(num_ranges > 0);
  const struct range *last = &ranges[num_ranges - 1];
  assert_string_equal(last->domain, "weft");
  assert_string_equal(last->name, name);
  assert_int_equal(last->bytes, bytes);
  assert_int_equal(last->ends, ends);
}

static int set_up(void **state) {
  (void)state;
  loop_reset();
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  options.heartbeat_ms = 3600000;
  pair_open(&pair, "", more, &options);
  return truncate(path, 0);
}

static int tear_down(void **state) {
  (void)state;
  loop_reset();
  pair_close(&pair);
  return 0;
}

static bool ended(void *arg) {
  return weft_transfer_poll(arg) != 1;
}

static void run(weft_transfer_t *transfer, int state) {
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_true(pair_until(&pair, ended, transfer));
  assert_int_equal(weft_transfer_poll(transfer), state);
}

static void test_a_range_for_each_post(void **state) {
  (void)state;
  weft_transfer_t *write = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 1000, NULL);
  weft_transfer_t *read = pair_transfer(&pair, WEFT_TRANSFER_READ, 0, 0, 77, NULL);
  run(write, 0);
  expect_last("WRITE loop", 1000, 1);
  run(read, 0);
  expect_last("READ loop", 77, 1);
  run(write, 0);
  expect_last("WRITE loop", 1000, 1);
  assert_int_equal(num_ranges, 3);
  pair_free(write);
  pair_free(read);
}

static void test_it_lasts_until_the_end(void **state) {
  (void)state;
  atomic_store(&loop.hold, true);
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 5000, NULL);
  assert_int_equal(weft_transfer_post(transfer), 0);
  for (int i = 0; i < 100; i++)
    assert_int_equal(weft_transfer_poll(transfer), 1);
  expect_last("WRITE loop", 5000, 0);
  assert_int_equal(weft_transfer_cancel(transfer, 60000), 0);
  expect_last("WRITE loop", 5000, 1);
  pair_free(transfer);
}

static void test_failures_end_it_too(void **state) {
  (void)state;
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 300, NULL);
  atomic_store(&loop.fail, WEFT_ERR_SYSTEM);
  run(transfer, WEFT_ERR_SYSTEM);
  expect_last("WRITE loop", 300, 1);
  atomic_store(&loop.refuse, WEFT_ERR_PEER_LOST);
  run(transfer, WEFT_ERR_PEER_LOST);
  expect_last("WRITE loop", 300, 1);
  assert_int_equal(num_ranges, 2);
  pair_free(transfer);
}

int main(void) {
  support_temporary(path, sizeof path, "weft-ranges");
  int file = mkstemp(path);
  if (file < 0 || close(file) != 0)
    return 1;
  setenv("WEFT_TEST_RANGES", path, 1);
  setenv("NVTX_INJECTION64_PATH", NVTX_TOOL, 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_a_range_for_each_post, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_it_lasts_until_the_end, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_failures_end_it_too, set_up, tear_down),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(path);
  return failed;
}

#else

int main(void) {
  printf("skipped: built without NVTX (WEFT_NVTX), whose header comes with CUDA\n");
  return 77;
}

#endif
