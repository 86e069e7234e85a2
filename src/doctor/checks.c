// The table of checks, and the order in which facts are gathered.
#include "doctor/doctor.h"

#include "doctor/host/host.h"
#include "doctor/library/library.h"
#include "doctor/peer/peer.h"
#include "doctor/store/store.h"

#include <stdio.h>

enum { TIMEOUT_MS = 3000 };

const struct doctor_check doctor_checks[] = {
    {"driver", doctor_judge_driver},           // the GPUs' driver
    {"gpus", doctor_judge_gpus},               // GPUs that Weft can use, and whether processes can share their memory
    {"peer-access", doctor_judge_peer_access}, // GPUs that reach each other's memory
    {"fabric", doctor_judge_fabric},           // GPUs reached by NVLink beyond this host or container
    {"gpu-rdma", doctor_judge_gpu_rdma},       // NICs that reach GPU memory
    {"nics", doctor_judge_nics},               // the NIC of each GPU
    {"links", doctor_judge_links},             // links of the NICs
    {"rdma", doctor_judge_rdma},               // RDMA devices
    {"gids", doctor_judge_gids},               // addresses of RDMA ports
    {"loopback", doctor_judge_loopback},       // the loopback interface
    {"mtu", doctor_judge_mtu},                 // MTU of the interfaces
    {"memlock", doctor_judge_memlock},         // locked memory
    {"huge-pages", doctor_judge_huge_pages},   // huge pages
    {"shm", doctor_judge_shm},                 // /dev/shm
    {"files", doctor_judge_files},             // open files
    {"cma", doctor_judge_cma},                 // reading other processes' memory
    {"io-uring", doctor_judge_io_uring},       // io_uring
    {"pidfd", doctor_judge_pidfd},             // notice of the end of processes
    {"futex", doctor_judge_futex},             // waiting for several futexes at once
    {"libraries", doctor_judge_libraries},     // versions of the other libraries
    {"ucx", doctor_judge_ucx},                 // UCX and its transports
    {"libfabric", doctor_judge_ofi},           // libfabric and its providers
    {"cufile", doctor_judge_cufile},           // cuFile: files that reach GPU memory
    {"store", doctor_judge_store},             // the store
    {"peer", doctor_judge_peer},               // the way to the peer
    {"peer-back", doctor_judge_peer_back},     // the way back
    {"peer-mtu", doctor_judge_peer_mtu},       // large packets on the way
    {NULL, NULL},
};

// The libraries are queried first: a process should fork while it has no other threads, and the store's client has
// threads.
void doctor_gather(struct doctor_facts *facts, const struct doctor_place *place) {
  const char *root = place->root ? place->root : "";
  uint32_t timeout_ms = place->timeout_ms ? place->timeout_ms : TIMEOUT_MS;
  *facts = (struct doctor_facts){0};
  doctor_gather_ucx(&facts->ucx, timeout_ms);
  doctor_gather_ofi(&facts->ofi, timeout_ms);
  doctor_gather_cufile(&facts->cufile);
  doctor_gather_libraries(facts->libraries);
  doctor_gather_kernel(&facts->kernel, root);
  if (topology_choose(&facts->choice, &(struct topology_choice_options){.root = place->root}) != 0)
    snprintf(facts->choice_error, sizeof facts->choice_error, "%s", weft_last_error());
  doctor_gather_rdma(&facts->rdma, root);
  doctor_gather_memory(&facts->memory, root);
  doctor_gather_network(&facts->network, root);
  doctor_gather_gpu(&facts->gpu, root);
  doctor_await_peer(&facts->peer, place->peer, place->token, timeout_ms, place->startup_timeout_s);
  doctor_gather_store(&facts->store, place->store);
}

void doctor_facts_free(struct doctor_facts *facts) {
  topology_choice_free(facts->choice);
  facts->choice = NULL;
}

void doctor_judge(const struct doctor_facts *facts, struct doctor_report *report) {
  for (const struct doctor_check *check = doctor_checks; check->name; check++) {
    report->check = check->name;
    check->judge(facts, report);
  }
}
