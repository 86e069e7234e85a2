// The transport `file` on a machine with pages of 64 KiB, which are common on arm64: requests that bypass the page
// cache begin and end at such a page. A sysconf() of this program reports that page size.
#include "cmocka_all.h"

#include <fcntl.h>
#include <unistd.h>

#include "support/file.h"
#include "transport/support/storage.h"

enum { PAGE = 65536, SMALL_PAGE = 4096, LENGTH = 5 * PAGE };

static uint32_t past_cache, astray; // writes, and those of them that are not whole pages

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name) {
  return name == _SC_PAGESIZE ? PAGE : __real_sysconf(name);
}

ssize_t __real_pwrite(int fd, const void *from, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *from, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *from, size_t size, off_t offset) {
  if (fcntl(fd, F_GETFL) & O_DIRECT) {
    past_cache++;
    astray += offset % PAGE != 0 || size % PAGE != 0;
  }
  return __real_pwrite(fd, from, size, offset);
}

static void test_only_whole_pages_go_past_the_cache(void **state) {
  (void)state;
  static const char *const settings[] = {"engine=posix", NULL};
  int fd = support_file(LENGTH, 1);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", settings, LENGTH), 0);
  uint32_t file = storage_file(&storage, fd, "data.bin");
  const uint64_t begins[] = {0, SMALL_PAGE, PAGE - SMALL_PAGE, PAGE};
  for (int i = 0; i < 4; i++) {
    uint64_t length = LENGTH - begins[i] - SMALL_PAGE;
    support_fill(storage.bytes, LENGTH, (uint64_t)i);
    assert_int_equal(storage_move(&storage, WEFT_TRANSFER_WRITE, file, begins[i], begins[i], length, NULL), 0);
  }
  storage_close(&storage);
  close(fd);
  if (past_cache == 0) {
    print_message("skipped: the file system of TMPDIR has no O_DIRECT\n");
    skip();
  }
  assert_int_equal(astray, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_only_whole_pages_go_past_the_cache)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
