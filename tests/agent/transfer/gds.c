// An agent with files and GPU memory, through the public interface, with fakes of CUDA and cuFile. Data that moves from
// a file to a GPU and on to another file is unchanged, deadlines and deregistration hold while cuFile waits, and
// without cuFile the agent says why it cannot do so. With the real cuFile
// (WEFT_CUFILE=/usr/local/cuda/lib64/libcufile.so.0, and the real plug-in) only the first of these runs, because a test
// cannot make the real cuFile wait or fail.
#include "cmocka_all.h"

#include "agent/support/owned.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/agent.h>

#include "base/random.h"
#include "base/wire/crc32c.h"
#include "support/fake_cufile.h"
#include "support/file.h"
#include "support/wait.h"

enum { BYTES = 9 << 20, ODD = 4097, LENGTH = BYTES - 2 * ODD };

static weft_agent_t *agent;
static weft_region_t gpu;
static uint64_t gpu_address;
static const char *cufile_path;
static bool is_fake;

static struct fake_cufile *fake(void) {
  static struct fake_cufile *found;
  if (!found)
    found = fake_cufile_find(cufile_path);
  return found;
}

static void works(int rc) {
  if (rc < 0)
    fail_msg("%s: %s", weft_err_name(rc), weft_last_error());
}

static void open_agent(void) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.name = "loader";
  works(weft_agent_open(&agent, &options));
}

static void allocate_gpu(void) {
  void *address;
  works(weft_agent_allocate(agent, WEFT_MEMORY_CUDA, BYTES, 0, &gpu, &address));
  gpu_address = (uint64_t)(uintptr_t)address;
}

static weft_region_t region_of(int fd, const char *name) {
  struct weft_agent_memory what = WEFT_AGENT_MEMORY_INIT;
  weft_region_t region;
  what.kind = WEFT_MEMORY_FILE;
  what.flags = WEFT_MEMORY_FD;
  what.fd = fd;
  what.path = name;
  works(weft_agent_register(agent, &what, &region));
  return region;
}

static uint32_t digest(int fd, uint64_t offset, uint64_t length) {
  uint8_t *bytes = malloc(length);
  assert_non_null(bytes);
  assert_int_equal(pread(fd, bytes, length, (off_t)offset), (ssize_t)length);
  uint32_t sum = crc32c(0, bytes, length);
  free(bytes);
  return sum;
}

struct lists {
  weft_dlist_t *gpu, *file;
};

static struct lists lists_of(weft_region_t file, uint64_t offset, uint64_t length) {
  struct weft_descriptor here = {gpu_address + ODD, length, gpu}, there = {offset, length, file};
  struct lists lists;
  works(weft_dlist_create(agent, WEFT_PEER_SELF, &here, 1, &lists.gpu));
  works(weft_dlist_create(agent, WEFT_PEER_SELF, &there, 1, &lists.file));
  return lists; // they stay until the agent is closed
}

static weft_transfer_t *transfer_of(enum weft_transfer_op op, weft_dlist_t *local, weft_dlist_t *remote,
                                    uint32_t timeout_ms) {
  weft_transfer_t *transfer;
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  works(weft_transfer_create(agent, op, local, remote, &options, &transfer));
  return transfer;
}

static void run(weft_transfer_t *transfer) {
  assert_non_null(strstr(weft_transfer_explain(transfer), "file is chosen"));
  works(weft_transfer_post(transfer));
  int rc = weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS);
  if (rc < 0)
    fail_msg("%s: %s", weft_err_name(rc), weft_transfer_error(transfer));
  works(weft_transfer_free(transfer));
}

static void test_file_to_gpu_to_file(void **state) {
  (void)state;
  uint64_t seed = random_id();
  print_message("seed %llu\n", (unsigned long long)seed);
  int from = support_file(BYTES, seed), to = support_file(BYTES, seed + BYTES);
  uint32_t head = digest(to, 0, ODD), tail = digest(to, ODD + LENGTH, ODD);
  open_agent();
  weft_region_t source = region_of(from, "source.bin"), sink = region_of(to, "sink.bin");
  allocate_gpu();
  struct lists read = lists_of(source, ODD, LENGTH), write = lists_of(sink, ODD, LENGTH);
  int before = is_fake ? atomic_load(&fake()->calls) : 0;
  run(transfer_of(WEFT_TRANSFER_READ, read.gpu, read.file, 0));
  run(transfer_of(WEFT_TRANSFER_WRITE, write.gpu, write.file, 0));
  if (is_fake)
    assert_true(atomic_load(&fake()->calls) >= before + 6); // 4 MiB at once, at most
  assert_int_equal(digest(to, ODD, LENGTH), digest(from, ODD, LENGTH));
  assert_int_equal(digest(to, 0, ODD), head);
  assert_int_equal(digest(to, ODD + LENGTH, ODD), tail);
  run(transfer_of(WEFT_TRANSFER_WRITE, read.file, read.gpu, 0)); // the other way round: a file is written to a GPU
  run(transfer_of(WEFT_TRANSFER_READ, write.file, write.gpu, 0));
  assert_int_equal(digest(to, ODD, LENGTH), digest(from, ODD, LENGTH));
  owned_close(agent);
  if (is_fake) {
    assert_int_equal(atomic_load(&fake()->handles), 0);
    assert_int_equal(atomic_load(&fake()->buffers), 0);
  }
  close(from);
  close(to);
}

static bool is_inside(void *arg) {
  struct fake_cufile *it = arg;
  return atomic_load(&it->inside) > 0;
}

// A deadline passes while cuFile waits: the transfer ends when cuFile is done with the memory, and not before.
static void test_deadline(void **state) {
  (void)state;
  const uint32_t patience_ms = 3000; // until when cuFile is called, on a busy machine too
  int fd = support_file(BYTES, 1);
  open_agent();
  weft_region_t file = region_of(fd, "slow.bin");
  allocate_gpu();
  struct lists lists = lists_of(file, 0, LENGTH);
  weft_transfer_t *transfer = transfer_of(WEFT_TRANSFER_READ, lists.gpu, lists.file, patience_ms);
  atomic_store(&fake()->hold, 1);
  works(weft_transfer_post(transfer));
  assert_true(support_wait(is_inside, fake(), SUPPORT_DEADLINE_MS));
  assert_int_equal(weft_transfer_wait(transfer, patience_ms + 300), 1);
  assert_int_equal(weft_agent_deregister(agent, gpu), WEFT_ERR_BUSY);
  assert_int_equal(weft_transfer_free(transfer), WEFT_ERR_BUSY);
  atomic_store(&fake()->hold, 0);
  int rc = weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS);
  if (rc != WEFT_ERR_TIMEOUT)
    fail_msg("the transfer ended with %s: %s", weft_err_name(rc), weft_transfer_error(transfer));
  assert_int_equal(atomic_load(&fake()->inside), 0);
  works(weft_transfer_free(transfer));
  owned_close(agent);
  close(fd);
}

static void test_error_is_reported(void **state) {
  (void)state;
  int fd = support_file(BYTES, 1);
  open_agent();
  weft_region_t file = region_of(fd, "broken.bin");
  allocate_gpu();
  struct lists lists = lists_of(file, 0, LENGTH);
  weft_transfer_t *transfer = transfer_of(WEFT_TRANSFER_READ, lists.gpu, lists.file, 0);
  atomic_store(&fake()->error, 5010);
  works(weft_transfer_post(transfer));
  assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), WEFT_ERR_SYSTEM);
  atomic_store(&fake()->error, 0);
  if (!strstr(weft_transfer_error(transfer), "CU_FILE_NVFS_DRIVER_ERROR (5010)"))
    fail_msg("\"%s\" does not name the error", weft_transfer_error(transfer));
  works(weft_transfer_free(transfer));
  owned_close(agent);
  close(fd);
}

// Nothing else changes: the GPU's memory is registered and the file too, and transfers between them are reported.
static void without(const char *want) {
  int fd = support_file(BYTES, 1);
  open_agent();
  allocate_gpu();
  struct lists lists = lists_of(region_of(fd, "far.bin"), 0, LENGTH);
  weft_transfer_t *transfer;
  weft_dlist_t *sides[2] = {lists.gpu, lists.file};
  for (int i = 0; i < 2; i++) {
    int rc = weft_transfer_create(agent, WEFT_TRANSFER_READ, sides[i], sides[1 - i], NULL, &transfer);
    assert_int_equal(rc, WEFT_ERR_UNREACHABLE);
    if (!strstr(weft_last_error(), want))
      fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), want);
  }
  owned_close(agent);
  close(fd);
}

static void test_without(void **state) {
  (void)state;
  setenv("WEFT_CUFILE", "off", 1);
  without("memory of GPUs is copied through host memory: GPUDirect Storage is switched off (WEFT_CUFILE=off)");
  setenv("WEFT_CUFILE", cufile_path, 1);
  atomic_store(&fake()->driver_error, 5001);
  without("memory of GPUs is copied through host memory: cuFile's driver does not open");
  atomic_store(&fake()->driver_error, 0);
}

int main(void) {
  const struct CMUnitTest real[] = {cmocka_unit_test(test_file_to_gpu_to_file)};
  cufile_path = getenv("WEFT_CUFILE");
  if (!cufile_path || !getenv("WEFT_CUDA_PLUGIN"))
    return 77;
  cufile_path = strdup(cufile_path);
  is_fake = fake_cufile_is(cufile_path);
  if (!is_fake)
    return cmocka_run_group_tests(real, NULL, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_without), // first: a process keeps cuFile's driver
      cmocka_unit_test(test_file_to_gpu_to_file),
      cmocka_unit_test(test_deadline),
      cmocka_unit_test(test_error_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
