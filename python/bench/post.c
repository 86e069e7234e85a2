// The loops of post.py in C: what a post, and a dispatch with its combine, cost without Python. Prints JSON.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/weft.h>

enum { BATCH = 500, HIDDEN = 256, TOKENS = 1, TOPK = 2, ROWS = 8 };

static void must(int rc) {
  if (rc < 0) {
    fprintf(stderr, "post: %s\n", weft_last_error());
    exit(1);
  }
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

// The median of the batches, in ns for each call.
static double median(double *each, int count) {
  qsort(each, (size_t)count, sizeof *each, ascending);
  return each[count / 2];
}

static double time_posts(int batches) {
  static uint64_t from = 7, to;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  weft_agent_t *a, *b;
  weft_region_t region;
  weft_peer_t peer;
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfer;
  char blob[65536];
  size_t size;
  options.transports = "shm";
  options.name = "a";
  must(weft_agent_open(&a, &options));
  options.name = "b";
  must(weft_agent_open(&b, &options));
  memory.length = sizeof from;
  memory.address = &from;
  must(weft_agent_register(a, &memory, &region));
  memory.address = &to;
  must(weft_agent_register(b, &memory, &region));
  must(weft_agent_metadata(b, NULL, blob, sizeof blob, &size));
  must(weft_agent_load(a, blob, size, &peer));
  struct weft_descriptor here = {(uintptr_t)&from, 8, 0}, there = {(uintptr_t)&to, 8, 0};
  must(weft_dlist_create(a, WEFT_PEER_SELF, &here, 1, &local));
  must(weft_dlist_create(a, peer, &there, 1, &remote));
  must(weft_transfer_create(a, WEFT_TRANSFER_WRITE, local, remote, NULL, &transfer));
  double *each = calloc((size_t)batches, sizeof *each);
  for (int i = 0; i < batches; i++) {
    double begin = now_ns();
    for (int k = 0; k < BATCH; k++) {
      int rc;
      must(weft_transfer_post(transfer));
      while ((rc = weft_transfer_poll(transfer)) == 1)
        ;
      must(rc);
    }
    each[i] = (now_ns() - begin) / BATCH;
  }
  double result = median(each, batches);
  free(each);
  weft_agent_close(a);
  weft_agent_close(b);
  must(weft_transfer_free(transfer));
  must(weft_dlist_free(local));
  must(weft_dlist_free(remote));
  return result;
}

static void time_operations(int batches, double *dispatch, double *combine) {
  static uint16_t x[TOKENS * HIDDEN], y[2 * ROWS * HIDDEN], out[TOKENS * HIDDEN];
  static const int64_t topk_idx[TOKENS * TOPK] = {0, 1};
  static const float weights[TOKENS * TOPK] = {0.5f, 0.5f};
  static int32_t counts[2], src_rank[2 * ROWS], src_token[2 * ROWS];
  const int32_t founders[] = {0};
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  struct weft_ep_combine_args sum = WEFT_EP_COMBINE_ARGS_INIT;
  weft_store_t *store;
  weft_ep_t *ep;
  must(weft_store_open_local(&store));
  options.store = store;
  options.rank = 0;
  options.founders = founders;
  options.num_founders = 1;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  options.experts_per_rank = 2;
  options.max_tokens = 8;
  options.capacity = 8;
  must(weft_ep_open(&ep, &options, 10000));
  must(weft_ep_activate(ep, 10000));
  args.x = x;
  args.topk_idx = topk_idx;
  args.topk_weights = weights;
  args.num_tokens = TOKENS;
  recv.x = y;
  recv.counts = counts;
  recv.src_rank = src_rank;
  recv.src_token = src_token;
  recv.rows = ROWS;
  sum.y = y;
  sum.out = out;
  double *first = calloc((size_t)batches, sizeof *first), *second = calloc((size_t)batches, sizeof *second);
  for (int i = 0; i < batches; i++) {
    for (int k = 0; k < BATCH; k++) {
      struct weft_ep_info info = WEFT_EP_INFO_INIT;
      struct weft_ep_result result = WEFT_EP_RESULT_INIT;
      uint64_t op;
      double begin = now_ns();
      must(weft_ep_dispatch(ep, &args, &recv, &info, &op));
      double middle = now_ns();
      must(weft_ep_combine(ep, op, &sum, &result));
      first[i] += (middle - begin) / BATCH;
      second[i] += (now_ns() - middle) / BATCH;
    }
  }
  *dispatch = median(first, batches);
  *combine = median(second, batches);
  free(first);
  free(second);
  weft_ep_close(ep);
  weft_store_close(store);
}

int main(int argc, char **argv) {
  int batches = argc > 1 ? atoi(argv[1]) : 100;
  double dispatch, combine, post = time_posts(batches);
  time_operations(batches, &dispatch, &combine);
  printf("{\"post\": %.1f, \"dispatch\": %.1f, \"combine\": %.1f}\n", post, dispatch, combine);
  return 0;
}
