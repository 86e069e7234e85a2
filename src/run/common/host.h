// The names of this host.
#ifndef RUN_COMMON_HOST_H
#define RUN_COMMON_HOST_H

#include <stddef.h>

// Its host name, and the boot id that tells whether two clocks are the same; "" where the system does not say.
void run_host_describe(char *host, size_t host_cap, char *boot, size_t boot_cap);

#endif
