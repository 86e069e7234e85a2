// The table of checks, and the order in which facts are gathered.
#include "doctor/doctor.h"

#include "base/fail.h"
#include "doctor/host/host.h"
#include "doctor/library/library.h"
#include "doctor/peer/peer.h"
#include "doctor/store/store.h"

#include <stdio.h>

enum { TIMEOUT_MS = 3000 };

const struct doctor_check doctor_checks[] = {
    {"driver", "the GPUs' driver", doctor_judge_driver},
    {"gpus", "GPUs that Weft can use, and whether processes can share their memory", doctor_judge_gpus},
    {"peer-access", "GPUs that reach each other's memory", doctor_judge_peer_access},
    {"fabric", "GPUs reached by NVLink beyond this host or container", doctor_judge_fabric},
    {"gpu-rdma", "NICs that reach GPU memory", doctor_judge_gpu_rdma},
    {"nics", "the NIC of each GPU", doctor_judge_nics},
    {"links", "links of the NICs", doctor_judge_links},
    {"rdma", "RDMA devices", doctor_judge_rdma},
    {"gids", "addresses of RDMA ports", doctor_judge_gids},
    {"mtu", "MTU of the interfaces", doctor_judge_mtu},
    {"memlock", "locked memory", doctor_judge_memlock},
    {"huge-pages", "huge pages", doctor_judge_huge_pages},
    {"shm", "/dev/shm", doctor_judge_shm},
    {"files", "open files", doctor_judge_files},
    {"cma", "reading other processes' memory", doctor_judge_cma},
    {"io-uring", "io_uring", doctor_judge_io_uring},
    {"pidfd", "notice of the end of processes", doctor_judge_pidfd},
    {"futex", "waiting for several futexes at once", doctor_judge_futex},
    {"libraries", "versions of the other libraries", doctor_judge_libraries},
    {"ucx", "UCX and its transports", doctor_judge_ucx},
    {"libfabric", "libfabric and its providers", doctor_judge_ofi},
    {"cufile", "cuFile: files that reach GPU memory", doctor_judge_cufile},
    {"store", "the store", doctor_judge_store},
    {"peer", "the way to the peer", doctor_judge_peer},
    {"peer-back", "the way back", doctor_judge_peer_back},
    {"peer-mtu", "large packets on the way", doctor_judge_peer_mtu},
    {NULL, NULL, NULL},
};

// The libraries are asked first: a process should fork while it has no other threads, and the store's client has some.
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
