// The names of this host: its host name and its boot id.
#include "run/common/host.h"

#include <stdio.h>
#include <unistd.h>

#include "base/boot_id.h"

void run_host_describe(char *host, size_t host_cap, char *boot, size_t boot_cap) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  snprintf(host, host_cap, "%.*s", (int)host_cap - 1, name);
  char id[BOOT_ID_SIZE];
  boot_id_read(id); // "" where /proc is not there
  snprintf(boot, boot_cap, "%s", id);
}
