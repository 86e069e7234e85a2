// The transport `file` when operations fail. /proc/self/mem is a regular file whose reads and writes are short at the
// end of memory, and then fail with EIO: like a disk with bad blocks, for both engines. For the engine that uses system
// calls, wrappers produce the errors that only system calls can return.
#include "cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/file.h"
#include "transport/support/storage.h"

// --- system calls that say what a test wants ---

static size_t wrap_at_most; // bytes of a pread() or pwrite(); 0: as many as there are
static int wrap_error;      // of pwrite() from wrap_from on
static off_t wrap_from;
static int wrap_interrupts; // pread() calls that end with EINTR first
static int wrap_sync_error;
static int wrap_syncs;

ssize_t __real_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t __real_pwrite(int fd, const void *bytes, size_t size, off_t offset);
int __real_fdatasync(int fd);
ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset);
int __wrap_fdatasync(int fd);

static size_t capped(size_t size) {
  return wrap_at_most && size > wrap_at_most ? wrap_at_most : size;
}

ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset) {
  if (wrap_interrupts > 0) {
    wrap_interrupts--;
    errno = EINTR;
    return -1;
  }
  return __real_pread(fd, bytes, capped(size), offset);
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset) {
  if (wrap_error && offset >= wrap_from) {
    errno = wrap_error;
    return -1;
  }
  return __real_pwrite(fd, bytes, capped(size), offset);
}

int __wrap_fdatasync(int fd) {
  wrap_syncs++;
  errno = wrap_sync_error;
  return wrap_sync_error ? -1 : __real_fdatasync(fd);
}

// --- both engines ---

static const char *const by_uring[] = {"engine=uring", NULL}, *const by_posix[] = {"engine=posix", NULL};
static const char *const by_posix_synced[] = {"engine=posix", "sync=data", "direct=0", NULL};

// Runs a test with each engine that is here.
static void with_each(void (*test)(const char *const *settings)) {
  struct storage storage;
  if (storage_open(&storage, "file", by_uring, 4096) == 0) {
    storage_close(&storage);
    test(by_uring);
  } else {
    print_message("without io_uring: %s\n", weft_last_error());
  }
  test(by_posix);
}

static void short_file(const char *const *settings) {
  int fd = support_file(100001, 3);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", settings, 1 << 20), 0);
  uint32_t file = storage_file(&storage, fd, "short.bin");
  struct storage_request request;
  storage_request(&storage, &request, WEFT_TRANSFER_READ, 4);
  storage_piece(&storage, &request, file, 0, 0, 65536);
  storage_piece(&storage, &request, file, 65536, 65536, 65536); // ends 31,071 bytes too late
  storage_piece(&storage, &request, file, 131072, 200000, 10);  // not at all
  storage_piece(&storage, &request, file, 196608, 100000, 1);   // the last byte
  storage_prepare(&request);
  assert_int_equal(storage_run(&storage, &request), WEFT_ERR_LIMIT);
  const int32_t want[] = {0, WEFT_ERR_LIMIT, WEFT_ERR_LIMIT, 0};
  assert_memory_equal(request.status, want, sizeof want);
  assert_int_equal(request.request.moved, 100001 + 1);
  assert_non_null(strstr(request.request.why, "short.bin ends at byte "));
  storage_free(&request);
  storage_close(&storage);
  close(fd);
}

// The kernel kills who writes beyond it.
static void file_size_limit(const char *const *settings) {
  enum { MOST = 1 << 20 };
  int fd = support_file(0, 3);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", settings, 4 * MOST), 0);
  uint32_t file = storage_file(&storage, fd, "limited.bin");
  struct storage_request request;
  storage_request(&storage, &request, WEFT_TRANSFER_WRITE, 3);
  storage_piece(&storage, &request, file, 0, 0, MOST);
  storage_piece(&storage, &request, file, MOST, MOST - 1, 2);
  storage_piece(&storage, &request, file, 2 * MOST, MOST * UINT64_C(3), 4096);
  storage_prepare(&request);
  struct rlimit before, little;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  little = (struct rlimit){MOST, before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
  int rc = storage_run(&storage, &request);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(rc, WEFT_ERR_LIMIT);
  const int32_t want[] = {0, WEFT_ERR_LIMIT, WEFT_ERR_LIMIT};
  assert_memory_equal(request.status, want, sizeof want);
  assert_non_null(strstr(request.request.why, "limited.bin"));
  assert_non_null(strstr(request.request.why, "ulimit -f"));
  assert_int_equal(storage_run(&storage, &request), 0); // without a limit
  storage_free(&request);
  storage_close(&storage);
  close(fd);
}

static void test_file_size_limit(void **state) {
  (void)state;
  with_each(file_size_limit);
}

static void test_short_file(void **state) {
  (void)state;
  with_each(short_file);
}

// A page, then nothing; what a bad block looks like from here.
static void bad_blocks(const char *const *settings) {
  long page = sysconf(_SC_PAGESIZE);
  uint8_t *disk = mmap(NULL, (size_t)page * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(disk, MAP_FAILED);
  support_fill(disk, (uint64_t)page * 4, 11);
  assert_int_equal(mprotect(disk + page, (size_t)page, PROT_NONE), 0);
  assert_int_equal(munmap(disk + page, (size_t)page), 0);
  int fd = open("/proc/self/mem", O_RDWR);
  assert_true(fd >= 0);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", settings, (uint64_t)page * 4), 0);
  uint32_t file = storage_file(&storage, fd, "bad.img");
  uint64_t at = (uint64_t)(uintptr_t)disk, size = (uint64_t)page;
  for (int op = WEFT_TRANSFER_READ; op <= WEFT_TRANSFER_WRITE; op++) {
    struct storage_request request;
    storage_request(&storage, &request, op, 3);
    storage_piece(&storage, &request, file, 0, at + 100, size);   // 100 bytes of it are bad
    storage_piece(&storage, &request, file, size, at + size, 10); // all bad
    storage_piece(&storage, &request, file, size * 2, at + size * 2, size);
    storage_prepare(&request);
    assert_int_equal(storage_run(&storage, &request), WEFT_ERR_SYSTEM);
    const int32_t want[] = {WEFT_ERR_SYSTEM, WEFT_ERR_SYSTEM, 0};
    assert_memory_equal(request.status, want, sizeof want);
    assert_int_equal(request.request.moved, size - 100 + size);
    assert_non_null(strstr(request.request.why, "Input/output error"));
    assert_non_null(strstr(request.request.why, op == WEFT_TRANSFER_READ ? "cannot read" : "cannot write"));
    assert_memory_equal(storage.bytes, disk + 100, size - 100);
    storage_free(&request);
  }
  storage_close(&storage);
  close(fd);
  munmap(disk, (size_t)page);
  munmap(disk + page * 2, (size_t)page * 2);
}

static void test_input_output_error_is_of_its_piece(void **state) {
  (void)state;
  with_each(bad_blocks);
}

// --- what the calls are made to say ---

static void test_short_and_interrupted_calls_go_on(void **state) {
  (void)state;
  int fd = support_file(1 << 20, 3);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", by_posix, 2 << 20), 0);
  uint32_t file = storage_file(&storage, fd, "data.bin");
  wrap_at_most = 7777;
  wrap_interrupts = 50;
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_READ, file, 0, 0, 1 << 20, NULL), 0);
  assert_int_equal(wrap_interrupts, 0);
  support_fill(storage.bytes + (1 << 20), 1 << 20, 3);
  assert_memory_equal(storage.bytes, storage.bytes + (1 << 20), 1 << 20);
  support_fill(storage.bytes, 1 << 20, 4);
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_WRITE, file, 0, 13, 1 << 20, NULL), 0);
  wrap_at_most = 0;
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_READ, file, 1 << 20, 13, 1 << 20, NULL), 0);
  assert_memory_equal(storage.bytes, storage.bytes + (1 << 20), 1 << 20);
  wrap_interrupts = 1 << 30; // for ever: an end all the same
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_READ, file, 0, 0, 10, NULL), WEFT_ERR_SYSTEM);
  wrap_interrupts = 0;
  storage_close(&storage);
  close(fd);
}

static void write_fails_with(int error, int code, const char *words) {
  char why[120];
  int fd = support_file(4096, 3);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", by_posix, 1 << 20), 0);
  uint32_t file = storage_file(&storage, fd, "full.bin");
  wrap_error = error;
  wrap_from = 65536;
  struct storage_request request;
  storage_request(&storage, &request, WEFT_TRANSFER_WRITE, 2);
  storage_piece(&storage, &request, file, 0, 65536, 4096);
  storage_piece(&storage, &request, file, 0, 0, 4096);
  storage_prepare(&request);
  assert_int_equal(storage_run(&storage, &request), code);
  assert_int_equal(request.status[0], code);
  assert_int_equal(request.status[1], 0);
  snprintf(why, sizeof why, "cannot write 4096 bytes at 65536 of full.bin: %s", words);
  assert_memory_equal(request.request.why, why, strlen(why));
  wrap_error = 0;
  assert_int_equal(storage_run(&storage, &request), 0); // there is room again
  assert_string_equal(request.request.why, "");
  storage_free(&request);
  storage_close(&storage);
  close(fd);
}

static void test_quota_and_input_output_error(void **state) {
  (void)state;
  write_fails_with(EDQUOT, WEFT_ERR_LIMIT, "Disk quota exceeded");
  write_fails_with(EFBIG, WEFT_ERR_LIMIT, "File too large");
  write_fails_with(EIO, WEFT_ERR_SYSTEM, "Input/output error");
}

static void test_sync_before_the_end_and_its_failure(void **state) {
  (void)state;
  int fd = support_file(4096, 3), other = support_file(4096, 3);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", by_posix_synced, 1 << 20), 0);
  uint32_t first = storage_file(&storage, fd, "first"), second = storage_file(&storage, other, "second");
  struct storage_request request;
  storage_request(&storage, &request, WEFT_TRANSFER_WRITE, 3);
  storage_piece(&storage, &request, first, 0, 0, 4096);
  storage_piece(&storage, &request, second, 0, 0, 4096);
  storage_piece(&storage, &request, first, 0, 4096, 4096);
  storage_prepare(&request);
  wrap_syncs = 0;
  assert_int_equal(storage_run(&storage, &request), 0);
  assert_int_equal(wrap_syncs, 2);
  wrap_sync_error = EIO;
  assert_int_equal(storage_run(&storage, &request), WEFT_ERR_SYSTEM);
  assert_string_equal(request.request.why, "cannot flush first: Input/output error");
  assert_int_equal(request.status[0], WEFT_ERR_SYSTEM);
  assert_int_equal(request.status[1], WEFT_ERR_SYSTEM);
  wrap_sync_error = 0;
  storage_free(&request);
  storage_close(&storage);
  close(fd), close(other);
}

// All bytes are written when the request is cancelled, and none is flushed.
static void test_a_cancelled_flush_is_no_success(void **state) {
  (void)state;
  int fd = support_file(4096, 3), other = support_file(4096, 3);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", by_posix_synced, 1 << 20), 0);
  uint32_t first = storage_file(&storage, fd, "first"), second = storage_file(&storage, other, "second");
  struct storage_request request;
  storage_request(&storage, &request, WEFT_TRANSFER_WRITE, 2);
  storage_piece(&storage, &request, first, 0, 0, 4096);
  storage_piece(&storage, &request, second, 0, 0, 4096);
  storage_prepare(&request);
  wrap_syncs = 0;
  assert_int_equal(storage.transport->post(&request.request), 0);
  storage.transport->progress(storage.worker);
  assert_int_equal(request.request.moved, 8192);
  assert_int_equal(request.request.state, TRANSPORT_IN_FLIGHT);
  storage.transport->cancel(&request.request);
  assert_int_equal(storage_wait(&storage, &request), WEFT_ERR_CANCELED);
  assert_string_equal(request.request.why, "cancelled");
  assert_int_equal(request.status[0], WEFT_ERR_CANCELED);
  assert_int_equal(request.status[1], WEFT_ERR_CANCELED);
  assert_int_equal(wrap_syncs, 0);
  assert_int_equal(storage_run(&storage, &request), 0); // later posts flush again
  assert_int_equal(wrap_syncs, 2);
  storage_free(&request);
  storage_close(&storage);
  close(fd), close(other);
}

// --- what a system forbids, in a child that has lost it ---

static int child_file; // made before, since the child may not be allowed to

static int in_child(int (*body)(void)) {
  child_file = support_file(1 << 20, 3);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0)
    _exit(body());
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  close(child_file);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int round_trip(const char *const *settings) {
  struct storage storage;
  if (storage_open(&storage, "file", settings, 2 << 20) != 0)
    return 1;
  uint32_t file = storage_file(&storage, child_file, "file");
  support_fill(storage.bytes + (1 << 20), 1 << 20, 3);
  bool good = storage_move(&storage, WEFT_TRANSFER_READ, file, 0, 0, 1 << 20, NULL) == 0 &&
              memcmp(storage.bytes, storage.bytes + (1 << 20), 1 << 20) == 0;
  storage_close(&storage);
  return good ? 0 : 1;
}

static int without_io_uring(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return 77;
  struct storage storage;
  if (storage_open(&storage, "file", by_uring, 4096) != WEFT_ERR_UNSUPPORTED)
    return 2;
  return round_trip(NULL);
}

static void test_seccomp_forbids_io_uring(void **state) {
  (void)state;
  int rc = in_child(without_io_uring);
  if (rc == 77)
    skip();
  assert_int_equal(rc, 0);
}

// A kernel that has io_uring, and does not take the descriptor to sleep on.
static int without_an_eventfd(void) {
  enum { REGISTER_EVENTFD = 4 }; // IORING_REGISTER_EVENTFD
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_register, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, REGISTER_EVENTFD, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTSUP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
  struct storage storage;
  if (storage_open(&storage, "file", by_uring, 4096) != 0)
    return 77;
  storage_close(&storage);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return 77;
  errno = ENOENT; // of another call
  int rc = storage_open(&storage, "file", by_uring, 4096);
  return rc < 0 && rc != WEFT_ERR_NOT_FOUND && strstr(weft_last_error(), strerror(ENOTSUP)) ? round_trip(NULL) : 2;
}

static void test_an_eventfd_that_io_uring_refuses(void **state) {
  (void)state;
  int rc = in_child(without_an_eventfd);
  if (rc == 77)
    skip();
  assert_int_equal(rc, 0);
}

static int without_locked_memory(void) {
  struct rlimit little = {512 << 10, 512 << 10}; // enough for the ring, too little for the buffer
  if (setrlimit(RLIMIT_MEMLOCK, &little) != 0 || (geteuid() == 0 && setuid(65534) != 0))
    return 77;
  struct storage storage;
  if (storage_open(&storage, "file", by_uring, 4096) != 0)
    return 77;
  storage_close(&storage);
  return round_trip(by_uring);
}

static void test_memory_that_cannot_be_locked(void **state) {
  (void)state;
  int rc = in_child(without_locked_memory);
  if (rc == 77)
    skip();
  assert_int_equal(rc, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_short_file),
      cmocka_unit_test(test_file_size_limit),
      cmocka_unit_test(test_input_output_error_is_of_its_piece),
      cmocka_unit_test(test_short_and_interrupted_calls_go_on),
      cmocka_unit_test(test_quota_and_input_output_error),
      cmocka_unit_test(test_sync_before_the_end_and_its_failure),
      cmocka_unit_test(test_a_cancelled_flush_is_no_success),
      cmocka_unit_test(test_seccomp_forbids_io_uring),
      cmocka_unit_test(test_an_eventfd_that_io_uring_refuses),
      cmocka_unit_test(test_memory_that_cannot_be_locked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
