// Numbers in addresses that identify this host and this network namespace.
#include <sys/stat.h>

#include "base/boot_id.h"
#include "base/random.h"
#include "transport/flow/flow.h"

void flow_host(uint64_t *host, uint64_t *net) {
  char boot[BOOT_ID_SIZE];
  uint64_t hash = 1;
  boot_id_read(boot); // "" where /proc is not there
  for (const char *c = boot; *c; c++)
    hash = random_mix(hash ^ (unsigned char)*c);
  struct stat status = {0};
  *host = hash;
  *net = stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}
