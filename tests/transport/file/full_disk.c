// The transport `file` on a full disk: a small separate ext4, in a mount namespace that ends with the program.
#include "cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "support/file.h"
#include "transport/support/storage.h"

static char folder[96], image[128], mounted[128];

// NULL, or why there is no such disk.
static const char *make_disk(void) {
  char command[1024];
  support_temporary(folder, sizeof folder, "weft-disk");
  if (!mkdtemp(folder))
    return "no temporary folder";
  snprintf(image, sizeof image, "%s/image", folder);
  snprintf(mounted, sizeof mounted, "%s/disk", folder);
  if (geteuid() != 0)
    return "mounting wants root";
  if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
    return "no mount namespace";
  snprintf(
      command, sizeof command,
      "mkdir '%s' && truncate -s 16M '%s' && mkfs.ext4 -q '%s' >/dev/null 2>&1 && mount -o loop '%s' '%s' 2>/dev/null",
      mounted, image, image, image, mounted);
  return system(command) == 0 ? NULL : "no ext4 on a loop device";
}

static void remove_disk(void) {
  umount2(mounted, 0);
  rmdir(mounted);
  unlink(image);
  rmdir(folder);
}

static void fill_disk(const char *const *settings) {
  enum { PIECE = 1 << 20, COUNT = 24 };
  char path[256];
  snprintf(path, sizeof path, "%s/data", mounted);
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", settings, (uint64_t)PIECE * COUNT), 0);
  uint32_t file = storage_file(&storage, fd, path);
  support_fill(storage.bytes, storage.length, 9);
  struct storage_request request;
  storage_request(&storage, &request, WEFT_TRANSFER_WRITE, COUNT);
  for (uint64_t i = 0; i < COUNT; i++)
    storage_piece(&storage, &request, file, i * PIECE, i * PIECE, PIECE);
  storage_prepare(&request);
  assert_int_equal(storage_run(&storage, &request), WEFT_ERR_LIMIT);
  assert_non_null(strstr(request.request.why, "No space left on device"));
  uint32_t written = 0;
  uint8_t *back = malloc(PIECE);
  for (uint64_t i = 0; i < COUNT; i++) {
    if (request.status[i] == 0) { // whatever the order in which the pieces came to the disk
      assert_int_equal(pread(fd, back, PIECE, (off_t)(i * PIECE)), PIECE);
      assert_memory_equal(back, storage.bytes + i * PIECE, PIECE);
      written++;
    } else {
      assert_int_equal(request.status[i], WEFT_ERR_LIMIT);
    }
  }
  assert_true(written > 0 && written < 16);
  assert_true(request.request.moved >= (uint64_t)written * PIECE && request.request.moved < 16 << 20);
  free(back);
  storage_free(&request);
  storage_close(&storage);
  close(fd);
  unlink(path);
}

static void test_full_disk(void **state) {
  (void)state;
  const char *const variants[][3] = {
      {"engine=posix"}, {"engine=posix", "direct=0"}, {"engine=auto"}, {"engine=auto", "direct=0"}};
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
    fill_disk(variants[i]);
}

int main(void) {
  const char *why = make_disk();
  if (why) {
    remove_disk();
    printf("skipped: %s\n", why);
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_disk)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  remove_disk();
  return failed;
}
