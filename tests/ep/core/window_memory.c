// The memory that a connected peer costs at the default sizes (128 tokens, hidden 7168, top-8), as the library and the
// kernel report it. All of it is released again.
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/doorbell.h"
#include "ep/support/processes.h"

enum { MOST_BYTES = 8 * 1000 * 1000, DEADLINE_MS = 60000, TOKENS = 128, HIDDEN = 7168, TOPK = 8 };

// The windows that this process maps, as the kernel knows them.
struct maps {
  uint64_t size, pss; // bytes; pss: a page that n processes map counts 1/n in each
};

struct board {
  struct meeting meeting;
  struct maps connected; // of rank 0
  uint64_t peer_bytes;   // window_bytes of rank 0's peer
};

static bool read_maps(struct rank *rank, struct maps *maps) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/smaps", (int)getpid()); // the kernel's, also under qemu-user
  FILE *file = fopen(path, "re");
  if (!file)
    return rank_fail(rank, "%s cannot be read", path);
  *maps = (struct maps){0};
  bool window = false;
  char line[512];
  uint64_t kib;
  while (fgets(line, sizeof line, file)) {
    if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' ')) // the first line of a map: FROM-TO ... NAME
      window = strstr(line, "memfd:weft-window") != NULL;
    else if (window && sscanf(line, "Size: %" SCNu64 " kB", &kib) == 1)
      maps->size += kib * 1024;
    else if (window && sscanf(line, "Pss: %" SCNu64 " kB", &kib) == 1)
      maps->pss += kib * 1024;
  }
  fclose(file);
  return true;
}

// Memory is as it was after open: this rank's doorbell and nothing else.
static bool holds_nothing(struct rank *rank, const char *when) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  struct maps maps;
  for (;;) { // the service thread frees what the owner has let go of
    if (weft_ep_get_stats(rank->ep, &stats) != 0 || !read_maps(rank, &maps))
      return rank_fail(rank, "%s", weft_last_error());
    if (stats.window_bytes == EP_DOORBELL_SIZE && maps.size == EP_DOORBELL_SIZE)
      return true;
    if (clock_passed(deadline))
      return rank_fail(rank, "%s: windows of %" PRIu64 " bytes, %" PRIu64 " mapped", when, stats.window_bytes,
                       maps.size);
    poll(NULL, 0, 1);
  }
}

// Both windows of the pair are mapped, each counted half here and half in the peer.
static bool holds_one_peer(struct rank *rank, struct board *board) {
  int32_t peer = 1 - rank->index;
  struct weft_ep_peer_stats stats = WEFT_EP_PEER_STATS_INIT;
  struct weft_ep_stats all = WEFT_EP_STATS_INIT;
  struct maps maps;
  if (weft_ep_get_peer_stats(rank->ep, peer, &stats) != 0 || weft_ep_get_stats(rank->ep, &all) != 0)
    return rank_fail(rank, "%s", weft_last_error());
  if (!read_maps(rank, &maps))
    return false;
  if (stats.window_bytes > MOST_BYTES)
    return rank_fail(rank, "a peer's window has %" PRIu64 " bytes, more than %d", stats.window_bytes, MOST_BYTES);
  uint64_t bells = 2 * EP_DOORBELL_SIZE; // its own, mapped by the peer, and the peer's
  if (all.window_bytes != stats.window_bytes + EP_DOORBELL_SIZE || maps.size != 2 * stats.window_bytes + bells ||
      maps.pss != stats.window_bytes + EP_DOORBELL_SIZE)
    return rank_fail(rank,
                     "the library counts %" PRIu64 " bytes, the kernel %" PRIu64 " mapped, %" PRIu64 " as a share",
                     all.window_bytes, maps.size, maps.pss);
  if (rank->index == 0) {
    board->connected = maps;
    board->peer_bytes = stats.window_bytes;
  }
  return true;
}

// Connected for a moment, without a view.
static bool connect_and_disconnect(struct rank *rank, struct board *board) {
  int32_t peer = 1 - rank->index;
  if (weft_ep_connect(rank->ep, &peer, 1, DEADLINE_MS) != 0)
    return rank_fail(rank, "%s", weft_last_error());
  if (!meeting_wait(&board->meeting, rank, 2, 2) || !holds_one_peer(rank, board) ||
      !meeting_wait(&board->meeting, rank, 2, 3))
    return false;
  if (weft_ep_disconnect(rank->ep, &peer, 1, DEADLINE_MS) != 0)
    return rank_fail(rank, "%s", weft_last_error());
  return holds_nothing(rank, "after disconnect") && meeting_wait(&board->meeting, rank, 2, 4);
}

// Active, until rank 1 leaves the view.
static bool join_and_leave(struct rank *rank, struct board *board) {
  static const int32_t self[] = {0};
  if (!rank_activate(rank) || !rank_operate_n(rank, 2) || !holds_one_peer(rank, board) ||
      !meeting_wait(&board->meeting, rank, 2, 5))
    return false;
  if (rank->index == 1)
    return rank_leave(rank);
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  struct weft_ep_stats stats = {.size = sizeof stats, .connected = 1};
  if (!rank_operate_until(rank, self, 1))
    return false;
  while (stats.connected > 0 && !clock_passed(deadline))
    if (!rank_operate(rank) || weft_ep_get_stats(rank->ep, &stats) != 0)
      return false;
  return holds_nothing(rank, "after the other left");
}

static bool live(struct rank *rank, void *arg) {
  static const int32_t founders[] = {0, 1};
  struct board *board = arg;
  return rank_open(rank, &rank->setup, rank->index, founders, 2) && holds_nothing(rank, "after open") &&
         meeting_wait(&board->meeting, rank, 2, 1) && connect_and_disconnect(rank, board) &&
         join_and_leave(rank, board);
}

static void run(const char *format, enum weft_ep_dtype dtype) {
  struct board *board = processes_share(sizeof *board);
  struct setup setup = {.tokens = TOKENS, .hidden = HIDDEN, .topk = TOPK, .capacity = 2, .dtype = dtype};
  struct processes processes;
  processes_start(&processes, 2, &setup, live, board);
  int status[2] = {processes_reap(&processes, 0), processes_reap(&processes, 1)};
  for (int i = 0; i < 2; i++)
    if (status[i] != 0)
      fail_msg("rank %d ended with status %d: %s", i, status[i], processes.errors[i]);
  print_message("%s: a peer's window %.2f MB; a rank maps %.2f MB for it and pays %.2f MB\n", format,
                (double)board->peer_bytes / 1e6, (double)board->connected.size / 1e6,
                (double)board->connected.pss / 1e6);
  processes_end(&processes);
  munmap(board, sizeof *board);
}

static void a_bf16_peer_costs_at_most_8_mb_and_gives_them_back(void **state) {
  (void)state;
  run("bf16", WEFT_EP_BF16);
}

static void an_fp8_peer_costs_at_most_8_mb_and_gives_them_back(void **state) {
  (void)state;
  run("fp8", WEFT_EP_FP8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_bf16_peer_costs_at_most_8_mb_and_gives_them_back),
      cmocka_unit_test(an_fp8_peer_costs_at_most_8_mb_and_gives_them_back),
  };
  return cmocka_run_group_tests_name("ep_window_memory", tests, NULL, NULL);
}
