// The NICs of --device_list.
#ifndef CLI_BENCH_DEVICES_H
#define CLI_BENCH_DEVICES_H

// Has the transports use these and no others; "all" leaves the choice to them. INVALID names the one that this host
// does not have, and those that it has. [before an agent opens]
int cli_bench_devices_choose(const char *list);

#endif
