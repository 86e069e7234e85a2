// Queries of memory, files and objects, registered or not. Host memory with a hole cannot be registered.
#include "cmocka_all.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <weft/agent.h>

#include "support/temporary.h"
#include "support/wait.h"

enum { PAGES = 16 };

static weft_agent_t *agent;
static size_t page;

static void open_agent(const char *transports) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.name = "asker";
  options.transports = transports;
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  if (weft_agent_open(&agent, &options) != 0)
    fail_msg("%s", weft_last_error());
}

static int set_up(void **state) {
  (void)state;
  page = (size_t)sysconf(_SC_PAGESIZE);
  open_agent("shm,file");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  weft_agent_close(agent);
  return 0;
}

static int ask(enum weft_memory_kind kind, void *address, uint64_t length, const char *path,
               struct weft_memory_status *status) {
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  memory.kind = kind;
  memory.address = address;
  memory.length = length;
  memory.path = path;
  *status = (struct weft_memory_status)WEFT_MEMORY_STATUS_INIT;
  return weft_agent_query_memory(agent, &memory, SUPPORT_DEADLINE_MS, status);
}

static uint8_t *map_pages(void) {
  uint8_t *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  return memory;
}

// The hole is at each page in turn; the question begins and ends within pages.
static void test_memory_with_a_hole(void **state) {
  (void)state;
  struct weft_memory_status status;
  for (size_t hole = 1; hole < PAGES; hole++) {
    uint8_t *memory = map_pages();
    assert_int_equal(ask(WEFT_MEMORY_HOST, memory + 5, PAGES * page - 9, NULL, &status), 0);
    assert_true(status.flags == WEFT_MEMORY_THERE && status.length == PAGES * page - 9);
    assert_true(status.region == 0 && status.device == -1);
    munmap(memory + hole * page, page);
    assert_int_equal(ask(WEFT_MEMORY_HOST, memory + 5, PAGES * page - 9, NULL, &status), 0);
    assert_true(status.flags == WEFT_MEMORY_THERE && status.length == hole * page - 5);
    assert_int_equal(ask(WEFT_MEMORY_HOST, memory + hole * page + 7, 1, NULL, &status), 0);
    assert_true(status.flags == 0 && status.length == 0);
    munmap(memory, PAGES * page);
  }
}

// As many pages as there are addresses have no length in 64 bits.
static void test_all_addresses(void **state) {
  (void)state;
  struct weft_memory_status status;
  assert_int_equal(ask(WEFT_MEMORY_HOST, (void *)(uintptr_t)1, UINT64_MAX - 1, NULL, &status), 0);
  assert_true(status.flags == 0 && status.length == 0);
  struct weft_agent_memory what = WEFT_AGENT_MEMORY_INIT;
  what.address = (void *)(uintptr_t)1;
  what.length = UINT64_MAX - 1;
  weft_region_t region = 0;
  assert_int_equal(weft_agent_register(agent, &what, &region), WEFT_ERR_INVALID);
}

static void test_unmapped_memory_is_not_registered(void **state) {
  (void)state;
  uint8_t *memory = map_pages();
  struct weft_agent_memory what = WEFT_AGENT_MEMORY_INIT;
  weft_region_t region = 77;
  char address[32];
  what.address = memory + 3;
  what.length = PAGES * page - 3;
  munmap(memory + 6 * page, 2 * page);
  assert_int_equal(weft_agent_register(agent, &what, &region), WEFT_ERR_INVALID);
  snprintf(address, sizeof address, "%p", (void *)(memory + 6 * page));
  assert_non_null(strstr(weft_last_error(), address));
  assert_true(region == 77);
  what.length = 6 * page - 3;
  assert_int_equal(weft_agent_register(agent, &what, &region), 0);
  assert_int_equal(weft_agent_deregister(agent, region), 0);
  munmap(memory, PAGES * page);
}

static void test_the_region_is_named(void **state) {
  (void)state;
  weft_region_t region;
  void *memory;
  struct weft_memory_status status;
  assert_int_equal(weft_agent_allocate(agent, WEFT_MEMORY_HOST, 4 * page, -1, &region, &memory), 0);
  assert_int_equal(ask(WEFT_MEMORY_HOST, (uint8_t *)memory + 1, page, NULL, &status), 0);
  assert_true(status.region == region);
  assert_int_equal(ask(WEFT_MEMORY_HOST, memory, 4 * page + 1, NULL, &status), 0);
  assert_true(status.region == 0);
}

static void test_files(void **state) {
  (void)state;
  char path[96], below[128];
  struct weft_memory_status status;
  support_temporary(path, sizeof path, "weft-look");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, 12345), 0);
  assert_int_equal(ask(WEFT_MEMORY_FILE, NULL, 0, path, &status), 0);
  assert_true(status.flags == WEFT_MEMORY_THERE && status.length == 12345 && status.region == 0);
  struct weft_agent_memory what = WEFT_AGENT_MEMORY_INIT;
  weft_region_t region;
  what.kind = WEFT_MEMORY_FILE;
  what.path = path;
  assert_int_equal(weft_agent_register(agent, &what, &region), 0);
  assert_int_equal(ask(WEFT_MEMORY_FILE, NULL, 0, path, &status), 0);
  assert_true(status.region == region);
  snprintf(below, sizeof below, "%s/below", path);
  assert_int_equal(ask(WEFT_MEMORY_FILE, NULL, 0, below, &status), 0);
  assert_true(status.flags == 0 && status.length == 0);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(ask(WEFT_MEMORY_FILE, NULL, 0, path, &status), 0);
  assert_true(status.flags == 0);
  what.flags = WEFT_MEMORY_FD;
  what.fd = fd;
  what.path = NULL;
  status = (struct weft_memory_status)WEFT_MEMORY_STATUS_INIT;
  assert_int_equal(weft_agent_query_memory(agent, &what, 0, &status), 0); // it has no name any more, and is there
  assert_true(status.flags == WEFT_MEMORY_THERE && status.length == 12345);
  close(fd);
  assert_int_equal(weft_agent_query_memory(agent, &what, 0, &status), WEFT_ERR_SYSTEM);
  assert_non_null(strstr(weft_last_error(), "cannot stat the file of descriptor"));
}

// --- block devices ---

enum { DEVICE_BYTES = 1 << 20 };

// A block device over a file of that size: its descriptor and its path. -1: this process may not make one.
static int open_device(char path[32]) {
  char name[96];
  support_temporary(name, sizeof name, "weft-device");
  int file = mkstemp(name), control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), device = -1;
  assert_true(file >= 0);
  assert_int_equal(unlink(name), 0);
  assert_int_equal(ftruncate(file, DEVICE_BYTES), 0);
  int number = control >= 0 ? ioctl(control, LOOP_CTL_GET_FREE) : -1;
  snprintf(path, 32, "/dev/loop%d", number);
  if (number >= 0)
    device = open(path, O_RDWR | O_CLOEXEC);
  struct loop_info64 info = {.lo_flags = LO_FLAGS_AUTOCLEAR}; // it goes when it is closed
  if (device >= 0 && (ioctl(device, LOOP_SET_FD, file) != 0 || ioctl(device, LOOP_SET_STATUS64, &info) != 0)) {
    close(device);
    device = -1;
  }
  if (control >= 0)
    close(control);
  close(file);
  return device;
}

static void test_block_devices(void **state) {
  (void)state;
  char path[32];
  struct weft_memory_status status;
  struct weft_agent_memory what = WEFT_AGENT_MEMORY_INIT;
  what.kind = WEFT_MEMORY_FILE;
  what.flags = WEFT_MEMORY_FD;
  what.fd = open_device(path);
  if (what.fd < 0)
    skip();
  assert_int_equal(ask(WEFT_MEMORY_FILE, NULL, 0, path, &status), 0);
  assert_true(status.flags == WEFT_MEMORY_THERE && status.length == DEVICE_BYTES);
  assert_int_equal(lseek(what.fd, 512, SEEK_SET), 512);
  status = (struct weft_memory_status)WEFT_MEMORY_STATUS_INIT;
  assert_int_equal(weft_agent_query_memory(agent, &what, 0, &status), 0);
  assert_true(status.flags == WEFT_MEMORY_THERE && status.length == DEVICE_BYTES);
  assert_int_equal(lseek(what.fd, 0, SEEK_CUR), 512);
  close(what.fd);
}

static void test_a_device_without_a_driver(void **state) {
  (void)state;
  enum { EXPERIMENTAL = 60 }; // a major number that Linux gives to no driver
  char path[96];
  struct weft_memory_status status;
  support_temporary(path, sizeof path, "weft-device");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  assert_int_equal(unlink(path), 0);
  if (mknod(path, S_IFBLK | 0600, makedev(EXPERIMENTAL, 0)) != 0)
    skip(); // only root may
  assert_int_equal(ask(WEFT_MEMORY_FILE, NULL, 0, path, &status), WEFT_ERR_SYSTEM);
  assert_non_null(strstr(weft_last_error(), path));
  assert_int_equal(unlink(path), 0);
}

static void test_refusals(void **state) {
  (void)state;
  struct weft_memory_status status;
  uint8_t byte;
  assert_int_equal(ask(WEFT_MEMORY_OBJECT, NULL, 0, "bucket/key", &status), WEFT_ERR_UNSUPPORTED);
  assert_int_equal(ask(WEFT_MEMORY_OBJECT, NULL, 0, "nothing", &status), WEFT_ERR_INVALID);
  assert_int_equal(ask(WEFT_MEMORY_HOST, NULL, 4, NULL, &status), WEFT_ERR_INVALID);
  assert_int_equal(ask(WEFT_MEMORY_FILE, NULL, 0, NULL, &status), WEFT_ERR_INVALID);
  assert_int_equal(ask(WEFT_MEMORY_CUDA, &byte, 1, NULL, &status), WEFT_ERR_UNSUPPORTED);
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  memory.address = &byte;
  memory.length = 1;
  assert_int_equal(weft_agent_query_memory(agent, &memory, 0, NULL), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_query_memory(NULL, &memory, 0, &status), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_query_memory(agent, NULL, 0, &status), WEFT_ERR_INVALID);
}

// With an S3 server in the environment (tests/transport/support/s3_swift.py).
static void test_objects(void **state) {
  (void)state;
  static const char path[] = "bucket/an agent asked for it";
  struct weft_memory_status status;
  if (!getenv("AWS_ENDPOINT_URL"))
    skip();
  weft_agent_close(agent);
  open_agent("object");
  assert_int_equal(ask(WEFT_MEMORY_OBJECT, NULL, 0, path, &status), 0);
  assert_true(status.flags == 0 && status.length == 0);
  struct weft_agent_memory what = WEFT_AGENT_MEMORY_INIT;
  weft_region_t host, object;
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfer;
  void *memory;
  what.kind = WEFT_MEMORY_OBJECT;
  what.path = path;
  assert_int_equal(weft_agent_register(agent, &what, &object), 0);
  assert_int_equal(weft_agent_allocate(agent, WEFT_MEMORY_HOST, page, -1, &host, &memory), 0);
  struct weft_descriptor from = {(uintptr_t)memory, 1001, host}, to = {0, 1001, object};
  assert_int_equal(weft_dlist_create(agent, WEFT_PEER_SELF, &from, 1, &local), 0);
  assert_int_equal(weft_dlist_create(agent, WEFT_PEER_SELF, &to, 1, &remote), 0);
  assert_int_equal(weft_transfer_create(agent, WEFT_TRANSFER_WRITE, local, remote, NULL, &transfer), 0);
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
  assert_int_equal(ask(WEFT_MEMORY_OBJECT, NULL, 0, path, &status), 0);
  assert_true(status.flags == WEFT_MEMORY_THERE && status.length == 1001 && status.region == object);
  assert_int_equal(weft_transfer_free(transfer), 0);
  assert_int_equal(weft_dlist_free(local), 0);
  assert_int_equal(weft_dlist_free(remote), 0);
}

// A port at which nobody listens.
static void test_a_server_that_is_away(void **state) {
  (void)state;
  struct weft_memory_status status;
  weft_agent_close(agent);
  setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9", 1);
  open_agent(NULL);
  int rc = ask(WEFT_MEMORY_OBJECT, NULL, 0, "bucket/key", &status);
  unsetenv("AWS_ENDPOINT_URL_S3");
  assert_true(rc == WEFT_ERR_UNREACHABLE ||
              rc == WEFT_ERR_UNSUPPORTED); // which of them, by whether it has the transport
  assert_non_null(strstr(weft_last_error(), rc == WEFT_ERR_UNREACHABLE ? "bucket/key" : "object"));
}

// The device of an allocation is of GPU memory only.
static void test_allocated_host_memory_is_on_no_gpu(void **state) {
  (void)state;
  weft_region_t region;
  void *memory;
  struct weft_region_info info;
  uint32_t count = 0;
  assert_int_equal(weft_agent_allocate(agent, WEFT_MEMORY_HOST, page, 1, &region, &memory), 0);
  assert_int_equal(weft_agent_regions(agent, WEFT_PEER_SELF, &info, sizeof info, 1, &count), 0);
  assert_int_equal(count, 1);
  assert_int_equal(info.device, -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_memory_with_a_hole, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_all_addresses, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_unmapped_memory_is_not_registered, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_the_region_is_named, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_allocated_host_memory_is_on_no_gpu, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_block_devices, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_device_without_a_driver, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_objects, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_server_that_is_away, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
