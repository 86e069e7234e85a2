// Finds the device of a file, and the payload rate of the device's link.
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "base/boot_id.h"
#include "limits/hardware/hardware.h"
#include "limits/hardware/sysfs.h"
#include "secure/hmac.h"

// A file that does not exist yet is on the device of its folder.
static bool find(const char *path, struct stat *status, struct statfs *system) {
  char folder[SYSFS_PATH];
  if (stat(path, status) == 0)
    return statfs(path, system) == 0;
  snprintf(folder, sizeof folder, "%s", path);
  char *slash = strrchr(folder, '/');
  if (!slash)
    snprintf(folder, sizeof folder, ".");
  else
    slash[slash == folder] = '\0';
  return stat(folder, status) == 0 && statfs(folder, system) == 0;
}

bool limits_disk_of(const char *path, char device[LIMITS_DEVICE], bool *in_memory) {
  struct stat status;
  struct statfs system;
  if (!find(path, &status, &system))
    return false;
  *in_memory = system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC || system.f_type == HUGETLBFS_MAGIC;
  dev_t id = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
  snprintf(device, LIMITS_DEVICE, "%u:%u", major(id), minor(id));
  return true;
}

// --- which disk ---

// Adds "name=value" where sysfs has a value.
static bool add_line(char *text, size_t cap, const char *folder, const char *name) {
  char line[SYSFS_LINE];
  size_t used = strlen(text);
  if (!sysfs_line(line, "%s/%s", folder, name) || !*line)
    return false;
  snprintf(text + used, cap - used, "%s=%s\n", name, line);
  return true;
}

// Lists permanent properties that identify a disk; "" if it has none.
static void identify(const char *root, const char *device, char *text, size_t cap) {
  static const char *const unique[] = {"wwid",    "serial",  "device/wwid", "device/serial",
                                       "dm/uuid", "md/uuid", "device/cid"};
  static const char *const more[] = {"device/model", "size"};
  char link[SYSFS_PATH], folder[SYSFS_PATH];
  bool known = false;
  *text = '\0';
  snprintf(link, sizeof link, "%s/sys/dev/block/%s", root, device);
  if (!realpath(link, folder))
    return;
  if (add_line(text, cap, folder, "partition"))
    *strrchr(folder, '/') = '\0';
  for (size_t i = 0; i < sizeof unique / sizeof *unique; i++)
    known |= add_line(text, cap, folder, unique[i]);
  for (size_t i = 0; i < sizeof more / sizeof *more; i++)
    add_line(text, cap, folder, more[i]);
  if (!known)
    *text = '\0';
}

// Until the kernel restarts, a device number identifies a disk. Disks that are plugged in later may reuse a number;
// diskseq tells them apart.
static void identify_until_restart(const char *root, const char *device, char *text, size_t cap) {
  char boot[BOOT_ID_SIZE], count[SYSFS_LINE];
  boot_id_read(boot);
  sysfs_line(count, "%s/sys/dev/block/%s/diskseq", root, device);
  snprintf(text, cap, "boot=%s\ndevice=%s\ndiskseq=%s\n", boot, device, count);
}

int limits_disk_key(const char *root, const char *device, char key[LIMITS_DEVICE]) {
  static const char secret[] = "weft limits disk";
  enum { SHOWN = 8 }; // bytes of the digest
  char text[10 * (SYSFS_LINE + 16)];
  uint8_t digest[HMAC_SIZE];
  identify(root, device, text, sizeof text);
  if (!*text)
    identify_until_restart(root, device, text, sizeof text);
  const struct hmac_part part = {text, strlen(text)};
  int rc = hmac_sha256(secret, sizeof secret - 1, &part, 1, digest);
  for (size_t i = 0; i < SHOWN && rc == 0; i++)
    snprintf(key + 2 * i, 3, "%02x", digest[i]);
  return rc;
}

// --- how fast it is ---

// The device is a folder of sysfs below that of the PCI device which drives it, as
// "../0000:01:00.0/nvme/nvme0/nvme0n1".
double limits_disk_gbps(const char *root, const char *device, char *detail, size_t cap) {
  char link[SYSFS_PATH], folder[SYSFS_PATH], slot[LIMITS_DETAIL];
  snprintf(link, sizeof link, "%s/sys/dev/block/%s", root, device);
  snprintf(detail, cap, "the device of the file (%s) does not report its speed; 'weft bench limits --path' measures it",
           device);
  if (!realpath(link, folder) || !strstr(folder, "/nvme"))
    return -1;
  *strstr(folder, "/nvme") = '\0';
  const char *address = strrchr(folder, '/');
  double gbps = address ? limits_pcie_gbps(root, address + 1, slot, sizeof slot) : -1;
  if (gbps > 0)
    snprintf(detail, cap, "an NVMe disk behind %.200s", slot);
  return gbps;
}
