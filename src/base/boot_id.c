// Reads the boot id from the kernel.
#include "base/boot_id.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

int boot_id_read(char out[BOOT_ID_SIZE]) {
  int file = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);
  ssize_t size = file >= 0 ? read(file, out, BOOT_ID_SIZE - 1) : -1;
  int error = errno;
  if (file >= 0)
    close(file);
  out[size > 0 ? size : 0] = '\0';
  out[strcspn(out, "\n")] = '\0';
  if (size < 0 && error != ENOENT && error != EACCES)
    return fail_errno(error, "cannot read the host's boot id from " BOOT_ID_FILE);
  if (!out[0])
    return fail(WEFT_ERR_UNSUPPORTED, "cannot read the host's boot id from " BOOT_ID_FILE ": %s",
                size < 0 ? strerror(error) : "it is empty");
  return 0;
}
