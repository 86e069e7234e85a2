// The NICs of --device_list.
#ifndef CLI_BENCH_DEVICES_H
#define CLI_BENCH_DEVICES_H

// Makes the transports use only these NICs; "all" leaves the choice to the transports. INVALID: the error names the NIC
// that this host does not have, and those that it has. [before an agent opens]
int cli_bench_devices_choose(const char *list);

#endif
