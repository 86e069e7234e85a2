// The memory of the CUDA plug-in on a CUDA made of host memory: windows of each kind, and the description of devices.
#include "cuda/plugin.h"
#include "cuda/support/plugin_case.h"
#include "support/entries.h"

#include <fcntl.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

static void windows_for_other_hosts_are_found_by_name(void **state) {
  (void)state;
  struct device_window own = {0}, mapped = {0}, none = {0};
  uint8_t name[DEVICE_NAME], nobodys[DEVICE_NAME];
  size_t before = fake.allocated;
  memset(nobodys, 0xFF, sizeof nobodys);
  assert_int_equal(cuda_fabric_create(device, 5000, &own, name, why), 0);
  assert_int_equal(own.size, 8192);
  assert_int_equal(cuda_fabric_map(device, 5000, name, &mapped, why), 0);
  assert_ptr_not_equal(own.memory, mapped.memory);
  assert_empty(own.memory, 8192);
  ((char *)mapped.memory)[8191] = 5;
  assert_int_equal(((char *)own.memory)[8191], 5);
  cuda_window_release(device, &mapped);
  assert_refused(cuda_fabric_map(device, 9000, name, &none, why), WEFT_ERR_UNSUPPORTED, "cannot map");
  assert_refused(cuda_fabric_map(device, 5000, nobodys, &none, why), WEFT_ERR_UNSUPPORTED, "same NVLink domain");
  fake.mappable = false;
  assert_refused(cuda_fabric_map(device, 5000, name, &none, why), WEFT_ERR_UNSUPPORTED, "access");
  fake.mappable = true;
  fake.full = true;
  assert_refused(cuda_fabric_create(device, 5000, &none, nobodys, why), WEFT_ERR_NOMEM, "device 0");
  fake.full = false;
  fake.no_channel = true;
  assert_refused(cuda_fabric_create(device, 5000, &none, nobodys, why), WEFT_ERR_UNSUPPORTED, "IMEX channel");
  device->info.fabric = false;
  assert_refused(cuda_fabric_create(device, 5000, &none, nobodys, why), WEFT_ERR_UNSUPPORTED, "over NVLink");
  assert_refused(cuda_fabric_map(device, 5000, name, &none, why), WEFT_ERR_UNSUPPORTED, "over NVLink");
  device->info.fabric = true;
  cuda_window_release(device, &own);
  assert_null(none.memory);
  assert_int_equal(fake.allocated, before);
}

static void windows_are_whole_pages_shared_and_empty(void **state) {
  (void)state;
  struct device_window own = {0}, mapped = {0}, none = {0};
  int fd = -1, nothing = -1;
  size_t before = fake.allocated;
  assert_int_equal(cuda_window_create(device, 5000, &own, &fd, why), 0);
  assert_int_equal(own.size, 8192);
  assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  assert_int_equal(cuda_window_map(device, 5000, fd, &mapped, why), 0);
  assert_ptr_not_equal(own.memory, mapped.memory);
  assert_empty(own.memory, 8192);
  ((char *)mapped.memory)[8191] = 5;
  assert_int_equal(((char *)own.memory)[8191], 5);
  close(fd);
  cuda_window_release(device, &own);
  assert_null(own.memory);
  assert_int_equal(((char *)mapped.memory)[8191], 5); // as long as one maps it
  cuda_window_release(device, &mapped);
  cuda_window_release(device, &mapped); // nothing
  assert_int_equal(fake.allocated, before);

  assert_refused(cuda_window_create(device, 0, &none, &nothing, why), WEFT_ERR_INVALID, "0 bytes");
  assert_refused(cuda_window_create(device, SIZE_MAX, &none, &nothing, why), WEFT_ERR_INVALID, "a window of");
  fake.full = true;
  assert_refused(cuda_window_create(device, 5000, &none, &nothing, why), WEFT_ERR_NOMEM, "device 0");
  fake.full = false;
  assert_int_equal(cuda_window_create(device, 5000, &own, &fd, why), 0);
  assert_refused(cuda_window_map(device, 9000, fd, &none, why), WEFT_ERR_PROTOCOL, "device 0");
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  assert_refused(cuda_window_map(device, 5000, pipes[0], &none, why), WEFT_ERR_PROTOCOL, "the peer's window");
  close(pipes[0]);
  close(pipes[1]);
  fake.hidden = true;
  assert_refused(cuda_window_map(device, 5000, fd, &none, why), WEFT_ERR_UNSUPPORTED, "has no access to");
  fake.hidden = false;
  fake.mappable = false;
  assert_refused(cuda_window_map(device, 5000, fd, &none, why), WEFT_ERR_UNSUPPORTED, "a window of device 0");
  assert_refused(cuda_window_create(device, 5000, &none, &nothing, why), WEFT_ERR_UNSUPPORTED, "access");
  assert_refused(cuda_check_peer(0, 1, why), WEFT_ERR_UNSUPPORTED, "cannot reach");
  close(fd);
  cuda_window_release(device, &own);
  assert_null(none.memory);
  assert_int_equal(nothing, -1);
  assert_int_equal(fake.allocated, before);
}

static void windows_in_host_memory_are_empty_handed_on_and_strict(void **state) {
  (void)state;
  struct device_window window = {0};
  void *host = NULL, *other = NULL;
  device->strict = false;
  assert_refused(cuda_host_window_create(device, 8, &window, &host, NULL, why), WEFT_ERR_INVALID, "too small");
  assert_false(device->strict);
  assert_int_equal(cuda_host_window_create(device, 5000, &window, &host, NULL, why), 0);
  assert_true(device->strict);
  assert_ptr_equal(window.memory, host); // as the fake has it
  assert_int_equal(window.size, 5000);
  assert_empty(host, 5000);
  memset(host, 7, 5000);
  void *first = host;
  cuda_host_window_release(device, &window, host);
  assert_null(window.memory);
  struct device_window small = {0};
  assert_int_equal(cuda_host_window_create(device, 4000, &small, &other, NULL, why), 0); // not one of another size
  assert_ptr_not_equal(other, first);
  assert_int_equal(cuda_host_window_create(device, 5000, &window, &host, NULL, why), 0);
  assert_ptr_equal(host, first);
  assert_empty(host, 5000);
  cuda_host_window_release(device, &small, other);
  cuda_host_window_release(device, &window, host);
  device->strict = false;
}

// A descriptor as neighbours have it.
static int open_for_reading(int fd) {
  char path[48];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int opened = open(path, O_RDONLY | O_CLOEXEC);
  assert_true(opened >= 0);
  assert_int_equal(flock(opened, LOCK_SH | LOCK_NB), 0);
  return opened;
}

static void windows_that_neighbours_read_are_not_handed_on(void **state) {
  (void)state;
  enum { SIZE = 12288 };
  struct device_window window = {0}, next = {0}, own = {0};
  void *host = NULL, *other = NULL;
  int fd = -1, other_fd = -1;
  assert_int_equal(cuda_host_window_create(device, SIZE, &window, &host, &fd, why), 0);
  assert_int_equal(fake.registered, cudaHostRegisterPortable | cudaHostRegisterMapped);
  assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  assert_int_equal(fcntl(fd, F_GET_SEALS), F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW);
  assert_empty(host, SIZE);
  memset(host, 7, SIZE);
  int reads = open_for_reading(fd);
  const char *seen = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, reads, 0);
  assert_ptr_not_equal(seen, MAP_FAILED);
  close(reads);
  assert_int_equal(seen[SIZE - 1], 7);
  void *first = host;
  int first_fd = fd;
  cuda_host_window_release(device, &window, host);
  assert_int_equal(cuda_host_window_create(device, SIZE, &own, &other, NULL, why), 0); // not a shared one
  assert_ptr_not_equal(other, first);
  cuda_host_window_release(device, &own, other);
  assert_int_equal(cuda_host_window_create(device, SIZE, &next, &other, &other_fd, why), 0);
  assert_ptr_not_equal(other, first);
  assert_int_not_equal(other_fd, first_fd);
  assert_int_equal(seen[SIZE - 1], 7);
  munmap((void *)(uintptr_t)seen, SIZE);
  assert_int_equal(cuda_host_window_create(device, SIZE, &window, &host, &fd, why), 0);
  assert_ptr_equal(host, first);
  assert_int_equal(fd, first_fd);
  assert_empty(host, SIZE);
  cuda_host_window_release(device, &window, host);
  cuda_host_window_release(device, &next, other);
  device->strict = false;
}

static void windows_that_cannot_be_shared_are_made_all_the_same(void **state) {
  (void)state;
  enum { SIZE = 16384 };
  struct device_window window = {0};
  void *host = NULL;
  int fd = 0, before = support_descriptors();
  fake.own_only = true;
  assert_int_equal(cuda_host_window_create(device, SIZE, &window, &host, &fd, why), 0);
  fake.own_only = false;
  assert_int_equal(fd, -1);
  assert_empty(host, SIZE);
  assert_int_equal(support_descriptors(), before);
  cuda_host_window_release(device, &window, host);
  device->strict = false;
}

// What another process says of its memory is held against what the driver knows of the allocation.
static void memory_of_others_is_as_large_as_it_is(void **state) {
  (void)state;
  static alignas(4096) char allocation[8192]; // as large as the fake driver says
  struct device_share share, lie;
  void *memory = NULL;
  fake.mappable = true;
  assert_int_equal(cuda_share(allocation + 100, 1000, false, &share, why), 0);
  assert_int_equal(share.offset, 100);
  uint64_t left = 0;
  int index = -1;
  assert_int_equal(cuda_extent(allocation + 100, &index, &left, why), 0);
  assert_true(index == 0 && left == 8092);
  assert_int_equal(cuda_extent(fake_host_memory, &index, &left, why), 0);
  assert_int_equal(index, -1);
  share.process ^= 1; // of another process
  assert_int_equal(cuda_share_open(device, &share, -1, &memory, why), 0);
  assert_ptr_equal(memory, allocation + 100);
  cuda_share_close(device, &share, memory);
  const uint64_t ranges[][2] = {{100, 8093}, {0, 8193}, {8193, 0}, {UINT64_MAX, 1}, {1, UINT64_MAX}, {UINT64_MAX, 2}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    lie = share;
    lie.offset = ranges[i][0];
    lie.size = ranges[i][1];
    memory = NULL;
    assert_refused(cuda_share_open(device, &lie, -1, &memory, why), WEFT_ERR_PROTOCOL, "has 8192 bytes");
    assert_null(memory);
  }
}

static void a_rank_that_cannot_share_memory_has_opened_no_device(void **state) {
  (void)state;
  static alignas(4096) char allocation[8192];
  struct device_share share;
  uint32_t users = device->users;
  int failed = 0;
  for (int n = 1; n < 6; n++) { // the call makes a context current several times
    fake.pushes_left = n;
    failed += cuda_share(allocation, 1000, false, &share, why) != 0;
    assert_int_equal(device->users, users);
  }
  fake.pushes_left = 0;
  assert_true(failed > 0);
}

// Both ways to copy end when their words have come; a device that is stuck leaves them open.
static void copies_are_reported_by_words(void **state) {
  (void)state;
  enum { MANY = 100, EACH = 64 };
  static char from[MANY * EACH], to[MANY * EACH];
  struct device_copy copies[MANY];
  for (size_t i = 0; i < sizeof from; i++)
    from[i] = (char)(i * 7);
  for (uint32_t i = 0; i < MANY; i++)
    copies[i] = (struct device_copy){.to = to + i * EACH, .from = from + i * EACH, .size = EACH};
  for (uint32_t count = 1; count <= MANY; count += MANY - 1) {
    struct device_copies *opened = NULL;
    bool passed = true;
    memset(to, 0, sizeof to);
    assert_int_equal(cuda_copies_open(device, copies, count, &opened, why), 0);
    fake.stuck = true;
    assert_int_equal(cuda_copies_run(opened, FAKE_OTHER_STREAM, why), 0);
    for (int looks = 0; looks < 1000; looks++) {
      assert_int_equal(cuda_copies_passed(opened, &passed, why), 0);
      assert_false(passed);
    }
    fake.stuck = false;
    for (int run = 0; run < 3; run++) {
      assert_int_equal(cuda_copies_run(opened, FAKE_OTHER_STREAM, why), 0);
      assert_int_equal(cuda_copies_passed(opened, &passed, why), 0);
      assert_true(passed);
    }
    assert_memory_equal(to, from, count * EACH);
    cuda_copies_close(opened);
  }
}

// Memory that is still written is not given back: the error comes when nothing runs any more.
static void copies_of_which_one_fails_are_reported_when_the_others_have_ended(void **state) {
  (void)state;
  enum { COUNT = 3 };
  static char from[COUNT], to[COUNT];
  struct device_copy copies[COUNT];
  struct device_copies *opened = NULL;
  bool passed = true;
  for (uint32_t i = 0; i < COUNT; i++)
    copies[i] = (struct device_copy){.to = to + i, .from = from + i, .size = 1};
  assert_int_equal(cuda_copies_open(device, copies, COUNT, &opened, why), 0);
  fake.copies_left = 1;
  assert_refused(cuda_copies_run(opened, FAKE_OTHER_STREAM, why), WEFT_ERR_INVALID, "cannot copy"); // none runs
  for (int word = 0; word < 2; word++) {
    fake.stuck = true;
    fake.copies_left = word ? 0 : 2;
    fake.fails = word ? 'w' : '\0';
    assert_int_equal(cuda_copies_run(opened, FAKE_OTHER_STREAM, why), 0);
    for (int looks = 0; looks < 3; looks++) {
      assert_int_equal(cuda_copies_passed(opened, &passed, why), 0);
      assert_false(passed);
    }
    fake.stuck = false;
    assert_refused(cuda_copies_passed(opened, &passed, why), word ? WEFT_ERR_UNSUPPORTED : WEFT_ERR_INVALID,
                   word ? "cannot mark" : "cannot copy");
  }
  assert_int_equal(cuda_copies_run(opened, FAKE_OTHER_STREAM, why), 0);
  assert_int_equal(cuda_copies_passed(opened, &passed, why), 0);
  assert_true(passed);
  cuda_copies_close(opened);
}

static bool is_pinned(const char *memory) {
  struct cudaPointerAttributes is;
  cudaPointerGetAttributes(&is, memory);
  return is.type == cudaMemoryTypeHost;
}

// Regions of an agent, or of several agents of a process, may overlap, and end in any order.
static void pinned_ranges_may_overlap(void **state) {
  (void)state;
  enum { PAGE = 4096 };
  static alignas(PAGE) char memory[4 * PAGE];
  int before = fake.pinned;
  assert_int_equal(cuda_pin_caller(memory, 2 * PAGE, why), 0);
  assert_int_equal(cuda_pin_caller(memory, 2 * PAGE, why), 0);
  assert_int_equal(cuda_pin_caller(memory + PAGE + 100, 2 * PAGE, why), 0);
  for (int page = 0; page < 4; page++)
    assert_true(is_pinned(memory + page * PAGE));
  cuda_unpin_caller(memory, 2 * PAGE);
  assert_true(is_pinned(memory));
  cuda_unpin_caller(memory, 2 * PAGE);
  for (int page = 1; page < 4; page++)
    assert_true(is_pinned(memory + page * PAGE));
  cuda_unpin_caller(memory + PAGE + 100, 2 * PAGE);
  assert_int_equal(fake.pinned, before);
}

static void memory_that_other_code_has_pinned_in_part_is_refused(void **state) {
  (void)state;
  enum { PAGE = 4096 };
  static alignas(PAGE) char memory[4 * PAGE];
  int before = fake.pinned;
  assert_int_equal(cudaHostRegister(memory + 2 * PAGE, PAGE, 0), cudaSuccess);
  assert_refused(cuda_pin_caller(memory + 2 * PAGE, PAGE, why), WEFT_ERR_EXISTS, "pinned already");
  assert_refused(cuda_pin_caller(memory + PAGE, 2 * PAGE, why), WEFT_ERR_INVALID, "a part of the 8192 bytes");
  assert_refused(cuda_pin_caller(memory + 2 * PAGE, 2 * PAGE, why), WEFT_ERR_INVALID, "a part of the 8192 bytes");
  assert_int_equal(cuda_pin_caller(memory, PAGE, why), 0);
  assert_refused(cuda_pin_caller(memory, 3 * PAGE, why), WEFT_ERR_INVALID, "a part of the 12288 bytes");
  cuda_unpin_caller(memory, PAGE); // the last one that has it
  assert_false(is_pinned(memory));
  assert_int_equal(cudaHostUnregister(memory + 2 * PAGE), cudaSuccess);
  assert_int_equal(fake.pinned, before);
}

static void devices_streams_and_owners_are_reported(void **state) {
  (void)state;
  int index = -1;
  struct device_info info;
  void *memory;
  assert_int_equal(cuda_stream_device(FAKE_OTHER_STREAM, &index, why), 0);
  assert_int_equal(index, 1);
  assert_int_equal(cuda_owner(fake_host_memory, &index, why), 0);
  assert_int_equal(index, -1);
  assert_int_equal(cuda_describe(1, &info, why), 0);
  assert_string_equal(info.name, "Fake");
  assert_true(info.windows);
  assert_refused(cuda_describe(2, &info, why), WEFT_ERR_INVALID, "no device 2");
  struct device *again = NULL;
  assert_int_equal(cuda_open(0, &again, why), 0);
  assert_ptr_equal(again, device);
  cuda_close(again);
  assert_int_equal(cuda_allocate(device, CUDA_FILL_BYTES + 3, &memory, why), 0);
  assert_int_equal(((char *)memory)[CUDA_FILL_BYTES + 2], 0);
  cuda_release(device, memory);
  fake.full = true;
  assert_refused(cuda_allocate(device, 12345, &memory, why), WEFT_ERR_NOMEM, "12345");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(windows_for_other_hosts_are_found_by_name),
      TEST(windows_are_whole_pages_shared_and_empty),
      TEST(windows_in_host_memory_are_empty_handed_on_and_strict),
      TEST(windows_that_neighbours_read_are_not_handed_on),
      TEST(windows_that_cannot_be_shared_are_made_all_the_same),
      TEST(memory_of_others_is_as_large_as_it_is),
      TEST(a_rank_that_cannot_share_memory_has_opened_no_device),
      TEST(copies_are_reported_by_words),
      TEST(copies_of_which_one_fails_are_reported_when_the_others_have_ended),
      TEST(pinned_ranges_may_overlap),
      TEST(memory_that_other_code_has_pinned_in_part_is_refused),
      TEST(devices_streams_and_owners_are_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
