// bench_ofi_plain [PROVIDER [fd]]: measures with plain libfabric what bench_transport measures, with the same two
// processes, processors, loops and lines. It replaces fi_rma_bw, which Debian does not package.
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include "base/time/clock.h"
#include "support/values.h"

enum {
  MIB = 1 << 20,
  UNDER_WAY = 4,
  ROUNDS = 9,
  PINGS = 2000,
  COPIES = 64,
  HEAD = 4096,
  SIZE = HEAD + UNDER_WAY * MIB,
};

#define STOP UINT64_MAX

struct name {
  char bytes[256];
  size_t size;
  uint64_t key, address;
};

struct side {
  struct fi_info *info;
  struct fid_domain *domain;
  struct fid_ep *ep;
  struct fid_cq *cq;
  struct fid_av *av;
  struct fid_mr *window, *source;
  unsigned char *memory, *mine;
  struct name there;
  fi_addr_t peer;
};

static const char *provider = "tcp;ofi_rxm";
static enum fi_wait_obj wait_object = FI_WAIT_NONE; // `fd`: queues that can wake a sleeper, as Weft's queues can

static void check(long rc, const char *what) {
  if (rc >= 0)
    return;
  fprintf(stderr, "bench_ofi_plain: %s: %s\n", what, fi_strerror((int)-rc));
  exit(1);
}

static void choose(struct side *side) {
  struct fi_info *hints = fi_allocinfo();
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
  hints->addr_format = FI_SOCKADDR_IN;
  hints->fabric_attr->prov_name = strdup(provider);
  check(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &side->info), "no such provider");
  fi_freeinfo(hints);
}

static struct fid_mr *reg(struct side *side, void *memory, uint64_t key) {
  struct fid_mr *mr;
  uint64_t access = FI_WRITE | FI_READ | FI_REMOTE_READ | FI_REMOTE_WRITE;
  check(fi_mr_reg(side->domain, memory, SIZE, access, 0, key, 0, &mr, NULL), "registration");
  return mr;
}

static void open_side(struct side *side, int processor) {
  bench_pin(processor);
  struct fid_fabric *fabric;
  struct fi_cq_attr cq = {.size = 4096, .format = FI_CQ_FORMAT_MSG, .wait_obj = wait_object};
  struct fi_av_attr av = {.type = FI_AV_TABLE};
  choose(side);
  check(fi_fabric(side->info->fabric_attr, &fabric, NULL), "a fabric");
  check(fi_domain(fabric, side->info, &side->domain, NULL), "a domain");
  check(fi_av_open(side->domain, &av, &side->av, NULL), "addresses");
  check(fi_cq_open(side->domain, &cq, &side->cq, NULL), "a queue");
  check(fi_endpoint(side->domain, side->info, &side->ep, NULL), "an endpoint");
  check(fi_ep_bind(side->ep, &side->av->fid, 0), "addresses");
  check(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), "a queue");
  check(fi_enable(side->ep), "an endpoint");
  side->memory = aligned_alloc(4096, SIZE);
  side->mine = aligned_alloc(4096, SIZE);
  memset(side->memory, 0, SIZE);
  memset(side->mine, 1, SIZE);
  side->window = reg(side, side->memory, 1);
  side->source = reg(side, side->mine, 2);
}

static void meet(struct side *side, int socket) {
  struct name here = {.size = sizeof here.bytes, .key = fi_mr_key(side->window)};
  check(fi_getname(&side->ep->fid, here.bytes, &here.size), "its name");
  here.address = side->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)side->memory : 0;
  check(send(socket, &here, sizeof here, 0), "a handshake message");
  check(recv(socket, &side->there, sizeof side->there, 0) - (ssize_t)sizeof side->there, "a handshake message");
  check(fi_av_insert(side->av, side->there.bytes, 1, &side->peer, 0, NULL) - 1, "the peer's name");
}

static int progress(struct side *side) {
  struct fi_cq_msg_entry entries[32];
  ssize_t count = fi_cq_read(side->cq, entries, 32);
  if (count != -FI_EAGAIN)
    check(count, "a completion");
  return count > 0 ? (int)count : 0;
}

static void post(struct side *side, uint64_t at, size_t size, struct fi_context2 *context) {
  ssize_t rc;
  while ((rc = fi_write(side->ep, side->mine + at, size, fi_mr_desc(side->source), side->peer, side->there.address + at,
                        side->there.key, context)) == -FI_EAGAIN)
    progress(side); // it may take completions of other writes, but run() waits for none now
  check(rc, "a write");
}

static void run(struct side *side, uint64_t at, size_t size) {
  struct fi_context2 context;
  post(side, at, size, &context);
  while (progress(side) == 0)
    ;
}

static uint64_t word(const struct side *side) {
  return *(volatile uint64_t *)(void *)side->memory;
}

static void put_word(struct side *side, uint64_t value) {
  *(uint64_t *)(void *)side->mine = value;
  run(side, 0, 8);
}

static void answer(struct side *side) {
  uint64_t seen = 0, now;
  while ((now = word(side)) != STOP) {
    if (now != seen)
      put_word(side, seen = now);
    progress(side);
  }
}

static void print_row(const char *what, double values[ROUNDS], const char *unit) {
  printf("%-44s %10.4g %s\n", what, bench_median(values, ROUNDS), unit);
}

static void ping(struct side *side) {
  double sent[ROUNDS], posts[ROUNDS];
  uint64_t number = 1;
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t begin = clock_ns();
    for (int i = 0; i < PINGS; i++, number++) {
      put_word(side, number);
      while (word(side) != number)
        progress(side);
    }
    sent[round] = (double)(clock_ns() - begin) / PINGS / 2;
    begin = clock_ns();
    for (int i = 0; i < PINGS; i++)
      run(side, HEAD, 8);
    posts[round] = (double)(clock_ns() - begin) / PINGS;
  }
  print_row("8 B, until the other sees it", sent, "ns");
  print_row("8 B, posted and complete", posts, "ns");
}

// GB/s of COPIES writes, with `under_way` at once. Completions are only counted, since writes end in their order.
static double stream(struct side *side, int under_way) {
  struct fi_context2 contexts[UNDER_WAY];
  int posted = 0, ended = 0;
  uint64_t begin = clock_ns();
  while (ended < COPIES) {
    for (; posted < COPIES && posted - ended < under_way; posted++)
      post(side, HEAD + (uint64_t)(posted % UNDER_WAY) * MIB, MIB, &contexts[posted % UNDER_WAY]);
    ended += progress(side);
  }
  return (double)COPIES * MIB / (double)(clock_ns() - begin);
}

static void large(struct side *side) {
  double one[ROUNDS], several[ROUNDS];
  for (int round = 0; round < ROUNDS; round++) {
    one[round] = stream(side, 1);
    several[round] = stream(side, UNDER_WAY);
  }
  print_row("1 MiB writes", one, "GB/s");
  print_row("1 MiB writes, 4 under way", several, "GB/s");
}

int main(int argc, char **argv) {
  if (argc > 1)
    provider = argv[1];
  if (argc > 2 && strcmp(argv[2], "fd") == 0)
    wait_object = FI_WAIT_FD;
  int sockets[2];
  check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), "a socket");
  struct side side = {.peer = 0};
  pid_t child = fork();
  open_side(&side, child == 0);
  meet(&side, sockets[child == 0]);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    answer(&side);
    _exit(0);
  }
  ping(&side);
  large(&side);
  *(uint64_t *)(void *)side.mine = STOP;
  struct fi_context2 context;
  post(&side, 0, 8, &context); // its completion may not come, since the other process ends
  int status;
  while (waitpid(child, &status, WNOHANG) == 0) {
    struct fi_cq_msg_entry entry;
    (void)!fi_cq_read(side.cq, &entry, 1);
  }
  return 0;
}
