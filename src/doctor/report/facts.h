// The facts about this host, the connection to a peer and the store. Each folder of checks gathers its part of the
// facts, and judges only the facts. So tests can judge hosts that do not exist.
#ifndef DOCTOR_REPORT_FACTS_H
#define DOCTOR_REPORT_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topology/choice/choice.h"

enum { DOCTOR_TEXT = 256, DOCTOR_NAME = 64, DOCTOR_GPUS = 64, DOCTOR_PORTS = 128, DOCTOR_INTERFACES = 128 };

struct doctor_gpu_facts {
  char driver[DOCTOR_TEXT];      // line of /proc/driver/nvidia/version; "" without a driver
  bool peer_memory;              // the kernel module that lets RDMA devices reach GPU memory
  bool channel;                  // an IMEX channel that this process may use
  char missing[DOCTOR_TEXT * 2]; // why Weft can use no GPU; "" when it can use one
  size_t count;
  struct {
    char name[DOCTOR_NAME], pci[16];
    bool windows;            // its memory can be shared between processes
    bool fabric;             // its memory can be shared between containers, and between hosts of an NVLink domain
    char error[DOCTOR_TEXT]; // why it cannot be described
  } gpus[DOCTOR_GPUS];
  size_t pairs, pairs_apart; // pairs of GPUs; pairs that cannot reach each other's memory
  char apart[DOCTOR_TEXT];   // the first of these, and why
};

// A port of an RDMA device.
struct doctor_port {
  char device[TOPOLOGY_NAME];
  int number;
  char state[DOCTOR_NAME]; // "4: ACTIVE"
  char layer[DOCTOR_NAME]; // "InfiniBand" or "Ethernet"
  char rate[DOCTOR_NAME];
  size_t gids, routable; // GIDs that are set; GIDs of RoCE v2
};

struct doctor_rdma_facts {
  size_t count;
  struct doctor_port ports[DOCTOR_PORTS];
  size_t verbs, verbs_usable; // devices /dev/infiniband/uverbs*; those that this process may open
};

#define DOCTOR_UNLIMITED UINT64_MAX

struct doctor_memory_facts {
  uint64_t lockable, lockable_hard;          // bytes; DOCTOR_UNLIMITED
  bool may_lock;                             // CAP_IPC_LOCK: the limit does not apply
  bool may_lock_inside;                      // CAP_IPC_LOCK of a user namespace: the limit applies
  uint64_t huge_page, huge_total, huge_free; // bytes, pages, pages
  bool shm;                                  // /dev/shm is a file system of its own
  uint64_t shm_size, shm_free;               // bytes; DOCTOR_UNLIMITED
  uint64_t files, files_hard;                // number of files that a process may have open
};

// Results of system calls: 0 or errno.
struct doctor_kernel_facts {
  int ptrace_scope;            // kernel.yama.ptrace_scope, -1 without Yama
  int read_child, read_parent; // process_vm_readv() of a child, and from a child of its parent
  int io_uring, pidfd, futex_waitv;
  int io_uring_disabled; // kernel.io_uring_disabled, 0 where there is no such setting
};

struct doctor_interface {
  char name[TOPOLOGY_NAME];
  char state[16]; // operstate
  int mtu;        // 0: not known
  int64_t mbit_s; // 0: not known
};

struct doctor_network_facts {
  size_t count;
  struct doctor_interface interfaces[DOCTOR_INTERFACES]; // without loopback
  bool loopback_down;
};

enum doctor_reach { DOCTOR_NOT_TRIED, DOCTOR_REACHED, DOCTOR_REFUSED, DOCTOR_SILENT, DOCTOR_UNREACHABLE };

struct doctor_peer_facts {
  bool asked;
  char name[DOCTOR_TEXT]; // as given
  char port[16];
  char error[DOCTOR_TEXT];   // why its name cannot be resolved; ""
  bool unknown;              // the resolver does not know its name at present
  char address[DOCTOR_NAME]; // numeric
  char interface[TOPOLOGY_NAME];
  int interface_mtu, path_mtu; // of the interface towards it; of the path, as far as the kernel knows; 0: not known
  enum doctor_reach reach;
  int reach_errno;
  double connect_ms;
  bool answered;          // a `weft doctor --listen` answered: the facts below are known
  bool wrong_answer;      // another program answered
  int peer_mtu;           // of the peer's interface towards us
  enum doctor_reach back; // from the peer to a port here
  bool bulk_sent;         // a large message was sent
  bool bulk_came;         // and came back unchanged
};

struct doctor_library_facts {
  bool present;
  char missing[DOCTOR_TEXT]; // why it cannot be loaded
  char version[DOCTOR_NAME];
  char transports[1024]; // with commas between them
  bool hung;             // the library did not answer in time
  int signal;            // the signal that ended the process which queried it
};

enum { DOCTOR_LIBRARIES = 6 };

// A library with a call that only returns its version.
struct doctor_loaded {
  const char *name, *purpose, *package;
  char version[DOCTOR_NAME]; // "" when it cannot be loaded
};

struct doctor_store_facts {
  bool asked;
  char url[DOCTOR_TEXT], version[DOCTOR_NAME];
  char error[DOCTOR_TEXT * 2]; // ""
  double answer_ms;
};

struct doctor_facts {
  struct topology_choice *choice; // NULL: the choice could not be made
  char choice_error[DOCTOR_TEXT * 2];
  struct doctor_gpu_facts gpu;
  struct doctor_rdma_facts rdma;
  struct doctor_memory_facts memory;
  struct doctor_kernel_facts kernel;
  struct doctor_network_facts network;
  struct doctor_peer_facts peer;
  struct doctor_library_facts ucx, ofi, cufile; // cufile's only transport is its driver
  struct doctor_loaded libraries[DOCTOR_LIBRARIES];
  struct doctor_store_facts store;
};

#endif
