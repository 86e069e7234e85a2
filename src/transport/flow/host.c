// Numbers for this host and this network namespace, for addresses.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/random.h"
#include "transport/flow/flow.h"

void flow_host(uint64_t *host, uint64_t *net) {
  char boot[64] = "";
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (!file || !fgets(boot, sizeof boot, file))
    boot[0] = '\0';
  if (file)
    fclose(file);
  uint64_t hash = 1;
  for (const char *c = boot; *c; c++)
    hash = random_mix(hash ^ (unsigned char)*c);
  struct stat status = {0};
  *host = hash;
  *net = stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}
