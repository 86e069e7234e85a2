// The names of this host.
#ifndef RUN_COMMON_HOST_H
#define RUN_COMMON_HOST_H

#include <stddef.h>

// Gets the host name, and the boot id, by which one can see whether two clocks are the same; "" if the system does not
// provide it.
void run_host_describe(char *host, size_t host_cap, char *boot, size_t boot_cap);

#endif
