// The names of this host: its host name and its boot id.
#include "run/common/host.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void run_host_describe(char *host, size_t host_cap, char *boot, size_t boot_cap) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  snprintf(host, host_cap, "%.*s", (int)host_cap - 1, name);
  boot[0] = '\0';
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (!file)
    return;
  if (fgets(boot, (int)boot_cap, file))
    boot[strcspn(boot, "\n")] = '\0';
  fclose(file);
}
