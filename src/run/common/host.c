// Gets the names of this host: its host name, or Slurm's name for it, and its boot id.
#include "run/common/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/boot_id.h"
#include "base/printable.h"

void run_host_describe(char *host, size_t host_cap, char *boot, size_t boot_cap) {
  char name[256] = "";
  const char *node = getenv("SLURMD_NODENAME"); // Slurm's users know this name, and one host may have several
  gethostname(name, sizeof name - 1);
  snprintf(host, host_cap, "%.*s", (int)host_cap - 1, node && *node ? node : name);
  printable_line(host);
  char id[BOOT_ID_SIZE];
  boot_id_read(id); // "" without /proc
  snprintf(boot, boot_cap, "%s", id);
}
