// The checks of this host: each file gathers one part of the facts and judges it.
#ifndef DOCTOR_HOST_HOST_H
#define DOCTOR_HOST_HOST_H

#include "doctor/report/check.h"

// `root` is the prefix of /sys, /proc and /dev, for tests; it is "" on a real host. The caller has zeroed the facts.
void doctor_gather_gpu(struct doctor_gpu_facts *facts, const char *root);
void doctor_gather_rdma(struct doctor_rdma_facts *facts, const char *root);
void doctor_gather_memory(struct doctor_memory_facts *facts, const char *root);
void doctor_gather_kernel(struct doctor_kernel_facts *facts, const char *root);
void doctor_gather_network(struct doctor_network_facts *facts, const char *root);

doctor_judge_fn doctor_judge_driver, doctor_judge_gpus, doctor_judge_peer_access, doctor_judge_fabric,
    doctor_judge_gpu_rdma;
doctor_judge_fn doctor_judge_nics, doctor_judge_links;
doctor_judge_fn doctor_judge_rdma, doctor_judge_gids;
doctor_judge_fn doctor_judge_memlock, doctor_judge_huge_pages, doctor_judge_shm, doctor_judge_files;
doctor_judge_fn doctor_judge_cma, doctor_judge_io_uring, doctor_judge_pidfd, doctor_judge_futex;
doctor_judge_fn doctor_judge_loopback, doctor_judge_mtu;

#endif
