// The processors for threads that drive a NIC or copy from and to a GPU: those of its NUMA node among the processors
// that the process may use. The nodes come from sysfs.
#ifndef BASE_AFFINITY_H
#define BASE_AFFINITY_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

enum { NEAR_WHY = 200, AFFINITY_MAX_NODES = 64 };

struct affinity_node {
  int node;
  cpu_set_t cpus;
};

struct affinity_place {
  bool binds; // threads are bound to `cpus`; else they run anywhere
  cpu_set_t cpus;
  char why[NEAR_WHY]; // the reason in words
};

// Parses a list such as "0-3,8" in sysfs's format, with or without a newline. False: it is no such list.
bool affinity_parse(const char *list, cpu_set_t *cpus);

// Reduces `allowed`, the processors that the process may use, to those of a node; `of` names the device of that node,
// for the reason. Leaves `allowed` unchanged if there is only one node, if the node (-1) or its processors are not
// known, or if none of them is allowed.
void affinity_choose(const struct affinity_node *nodes, size_t num_nodes, int node, const char *of,
                     const cpu_set_t *allowed, struct affinity_place *place);

// Finds the place for the calling thread's work with a GPU at a PCI address or, with NULL, with the NICs. The NICs are
// those in the first variable that is set of WEFT_OFI_NICS, UCX_NET_DEVICES, WEFT_NICS and WEFT_INTERFACE, or all; they
// must be at one node. WEFT_CPUS takes precedence: a list of processors, or "any". `root`: where sys/ is, for tests;
// NULL: "".
void affinity_find(const char *root, const char *gpu, struct affinity_place *place);

// Whether WEFT_CPUS is set to something.
bool affinity_asked(void);

// thread_create() of a thread that runs at the place from its start; if that is not possible, it runs where its creator
// runs. `place` NULL: anywhere.
int affinity_create(const struct affinity_place *place, pthread_t *thread, void *(*run)(void *), void *arg);

#endif
