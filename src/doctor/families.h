// The families of checks: one file each, which gathers its facts and judges them.
#ifndef DOCTOR_FAMILIES_H
#define DOCTOR_FAMILIES_H

#include "doctor/doctor.h"

// Reads the first line of the file at root + path. NULL: there is none.
const char *doctor_read(const char *root, const char *path, char *out, size_t cap);

void doctor_gather_gpu(struct doctor_gpu_facts *facts, const char *root);
void doctor_gather_rdma(struct doctor_rdma_facts *facts, const char *root);
void doctor_gather_memory(struct doctor_memory_facts *facts, const char *root);
void doctor_gather_kernel(struct doctor_kernel_facts *facts, const char *root);
void doctor_gather_network(struct doctor_network_facts *facts, const char *root);
void doctor_gather_peer(struct doctor_peer_facts *facts, const char *peer, const char *token, uint32_t timeout_ms);
void doctor_gather_ucx(struct doctor_library_facts *facts, uint32_t timeout_ms);
void doctor_gather_ofi(struct doctor_library_facts *facts, uint32_t timeout_ms);
void doctor_gather_cufile(struct doctor_library_facts *facts);
void doctor_gather_libraries(struct doctor_loaded libraries[DOCTOR_LIBRARIES]);
void doctor_gather_store(struct doctor_store_facts *facts, const struct weft_store_options *options);

typedef void doctor_judge_fn(const struct doctor_facts *facts, struct doctor_report *report);
doctor_judge_fn doctor_judge_driver, doctor_judge_gpus, doctor_judge_peer_access, doctor_judge_fabric,
    doctor_judge_gpu_rdma;
doctor_judge_fn doctor_judge_nics, doctor_judge_links;
doctor_judge_fn doctor_judge_rdma, doctor_judge_gids;
doctor_judge_fn doctor_judge_memlock, doctor_judge_huge_pages, doctor_judge_shm, doctor_judge_files;
doctor_judge_fn doctor_judge_cma, doctor_judge_io_uring, doctor_judge_pidfd, doctor_judge_futex;
doctor_judge_fn doctor_judge_mtu;
doctor_judge_fn doctor_judge_peer, doctor_judge_peer_back, doctor_judge_peer_mtu;
doctor_judge_fn doctor_judge_libraries, doctor_judge_ucx, doctor_judge_ofi, doctor_judge_cufile;
doctor_judge_fn doctor_judge_store;

#endif
