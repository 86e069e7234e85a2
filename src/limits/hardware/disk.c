// On which device a file is, and what the link of that carries.
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "limits/hardware/hardware.h"
#include "limits/hardware/sysfs.h"

// A file that is not there yet is where its folder is.
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

// The device is a folder of sysfs below that of the PCI device which drives it, as
// "../0000:01:00.0/nvme/nvme0/nvme0n1".
double limits_disk_gbps(const char *root, const char *device, char *detail, size_t cap) {
  char link[SYSFS_PATH], folder[SYSFS_PATH], slot[LIMITS_DETAIL];
  snprintf(link, sizeof link, "%s/sys/dev/block/%s", root, device);
  snprintf(detail, cap, "the file's device (%s) does not say how fast it is; 'weft bench limits --path' measures it",
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
