// Numbers in addresses that identify this host and this network namespace.
#include <sys/stat.h>

#include "base/boot_id.h"
#include "base/random.h"
#include "transport/flow/flow.h"

void flow_host(uint64_t *host, uint64_t *net) {
  char boot[BOOT_ID_SIZE];
  boot_id_read(boot); // "" where /proc is not there
  struct stat status = {0};
  *host = random_mix_text(1, boot);
  *net = stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}
