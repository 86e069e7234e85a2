// Counters of ranks in memory that a node shares with them.
#include "run/common/counters.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"

_Static_assert(offsetof(struct weft_ep_stats, operations) + RUN_STATS * sizeof(uint64_t) ==
                   sizeof(struct weft_ep_stats),
               "all fields of weft_ep_stats behind its size are counters of 8 bytes");

// Two of the fields are current values, which are not added up.
static bool is_gauge(uint32_t field) {
  size_t offset = offsetof(struct weft_ep_stats, operations) + field * sizeof(uint64_t);
  return offset == offsetof(struct weft_ep_stats, connected) || offset == offsetof(struct weft_ep_stats, window_bytes);
}

static int map(int fd, size_t size, struct run_counters **counters) {
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return fail_errno(errno, "cannot map the counters of ranks");
  *counters = memory;
  return 0;
}

int run_counters_make(uint32_t count, int *fd, struct run_counters **counters) {
  size_t size = count * sizeof **counters;
  int made = memfd_create("weft-counters", MFD_CLOEXEC);
  if (made < 0)
    return fail_errno(errno, "cannot make memory for the counters of ranks");
  int err = ftruncate(made, (off_t)size) != 0 ? fail_errno(errno, "cannot make memory for the counters of ranks")
                                              : map(made, size, counters);
  if (err)
    close(made);
  else
    *fd = made;
  return err;
}

int run_counters_map(int fd, uint32_t count, struct run_counters **counters) {
  struct stat status;
  if (fstat(fd, &status) != 0 || (uint64_t)status.st_size != count * sizeof **counters)
    return fail(WEFT_ERR_PROTOCOL, "the descriptor for the counters of %u ranks refers to other memory", count);
  return map(fd, count * sizeof **counters, counters);
}

void run_counters_unmap(struct run_counters *counters, uint32_t count) {
  if (counters)
    munmap(counters, count * sizeof *counters);
}

void run_counting_begin(struct run_counting *counting, struct run_counters *to) {
  counting->to = to;
  for (uint32_t i = 0; i < RUN_STATS; i++)
    counting->before[i] = is_gauge(i) ? 0 : to->stats[i];
  to->used = 1;
}

void run_counting_operation(struct run_counting *counting, uint64_t dispatch_ns, uint64_t combine_ns,
                            const struct weft_ep_stats *stats) {
  struct run_counters *to = counting->to;
  uint64_t now[RUN_STATS];
  memcpy(now, &stats->operations, sizeof now);
  for (uint32_t i = 0; i < RUN_STATS; i++)
    atomic_store_explicit(&to->stats[i], counting->before[i] + now[i], memory_order_relaxed);
  metrics_histogram_add(&to->dispatch, dispatch_ns);
  metrics_histogram_add(&to->combine, combine_ns);
}

void run_counters_stats(const struct run_counters *counters, struct weft_ep_stats *stats) {
  uint64_t now[RUN_STATS];
  for (uint32_t i = 0; i < RUN_STATS; i++)
    now[i] = atomic_load_explicit(&counters->stats[i], memory_order_relaxed);
  *stats = (struct weft_ep_stats)WEFT_EP_STATS_INIT;
  memcpy(&stats->operations, now, sizeof now);
}
