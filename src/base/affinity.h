// On which processors the threads run that drive a NIC or copy from and to a GPU: on those of its NUMA node, of what
// the process may use anyway. sysfs tells the nodes.
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
  bool binds; // to `cpus`; else the threads run where they are
  cpu_set_t cpus;
  char why[NEAR_WHY]; // in words
};

// "0-3,8" as sysfs has it, with a line end or without. False: it is no such list.
bool affinity_parse(const char *list, cpu_set_t *cpus);

// Narrows `allowed`, what the process may use, to a node; `of` is what stands there, for the words. Leaves it alone
// where there is one node, or the node (-1) or its processors are not known, or none of them is allowed.
void affinity_choose(const struct affinity_node *nodes, size_t num_nodes, int node, const char *of,
                     const cpu_set_t *allowed, struct affinity_place *place);

// The place of the calling thread, for a GPU at a PCI address or, NULL, for the NICs: those that WEFT_OFI_NICS,
// UCX_NET_DEVICES, WEFT_NICS or WEFT_INTERFACE name, the first of these that does, or all; they must be of one node.
// WEFT_CPUS takes precedence: a list of processors, or "any". `root`: where sys/ is, for tests; NULL: "".
void affinity_find(const char *root, const char *gpu, struct affinity_place *place);

// Whether WEFT_CPUS asks for something.
bool affinity_asked(void);

// thread_create() of a thread that runs there from its start; where that does not go, of one that runs where its
// creator does. `place` NULL: anywhere.
int affinity_create(const struct affinity_place *place, pthread_t *thread, void *(*run)(void *), void *arg);

#endif
