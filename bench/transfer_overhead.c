// Measures what the loop of `weft bench transfer` adds to its figures. The same transfers of the same agent run by
// turns in that loop (src/bench/transfer/lane.h) and in the barest loop that weft/agent.h allows. They move host memory
// over shm; the other end is a separate process. For each size, medians over the turns, in ns:
//   latency  p50 of a transfer: as the tool measures it, and by two clock readings around post and poll
//   mean     over a turn, from which the rates come: in the tool's loop, and in a bare loop without any clock
//   bench_transfer_overhead [TURNS]
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/time/ticks.h"
#include "bench/transfer/lane.h"
#include "support/must.h"
#include "support/values.h"

enum { BLOB = 1 << 16, MOST_TURNS = 1000, MOST_COUNT = 20000 };
#define BYTES ((uint64_t)1 << 20)

struct card {
  size_t size;
  weft_region_t region;
  uint64_t address;
  char blob[BLOB];
};

struct side {
  weft_agent_t *agent;
  struct transfer_buffer buffer;
  weft_peer_t peer;
  struct card card, other;
};

static void exchange(int fd, struct side *side) {
  size_t got = 0;
  ssize_t more;
  if (write(fd, &side->card, sizeof side->card) != (ssize_t)sizeof side->card)
    exit(1);
  while (got < sizeof side->other && (more = read(fd, (char *)&side->other + got, sizeof side->other - got)) > 0)
    got += (size_t)more;
  if (got < sizeof side->other)
    exit(1);
  must(weft_agent_load(side->agent, side->other.blob, side->other.size, &side->peer), "load");
}

static void open_side(struct side *side, const char *name) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  const struct transfer_memory memory = {.segment = TRANSFER_DRAM, .length = BYTES};
  options.name = name;
  options.transports = "shm";
  must(weft_agent_open(&side->agent, &options), "open");
  must(transfer_buffer_open(&side->buffer, side->agent, &memory), "allocate");
  side->card.region = side->buffer.region;
  side->card.address = (uintptr_t)side->buffer.address;
  must(weft_agent_metadata(side->agent, NULL, side->card.blob, BLOB, &side->card.size), "metadata");
}

static void place(void *arg, uint32_t thread, uint32_t slot, uint32_t member, uint32_t variant, uint64_t number,
                  struct transfer_block *block) {
  struct side *side = arg;
  (void)thread, (void)slot, (void)member, (void)variant, (void)number;
  block->buffer = &side->buffer;
  block->peer = side->peer;
  block->region = side->other.region;
  block->address = side->other.address;
}

static void finish(weft_transfer_t *transfer) {
  int rc;
  while ((rc = weft_transfer_poll(transfer)) == 1)
    ;
  must(rc, "a transfer");
}

static uint64_t median(uint64_t *values, uint32_t count) {
  bench_sort_ns(values, count);
  return values[count / 2];
}

struct turn {
  uint64_t latency, mean;
};

static struct turn run_tool(struct transfer_lane *lane, uint32_t count) {
  static uint64_t times[MOST_COUNT];
  must(transfer_lane_run(lane, count), "the tool's loop");
  for (uint32_t i = 0; i < count; i++)
    times[i] = ticks_to_ns(lane->ended[i] - lane->started[i]);
  uint64_t mean = (lane->end_ns - lane->begin_ns) / count;
  if (transfer_lane_is_brief(lane)) {
    must(transfer_lane_rate(lane, count), "the tool's loop without a clock");
    mean = (lane->rate_end_ns - lane->rate_begin_ns) / count;
  }
  return (struct turn){.latency = median(times, count), .mean = mean};
}

static struct turn run_bare(weft_transfer_t *transfer, uint32_t count) {
  static uint64_t times[MOST_COUNT];
  uint64_t begun = clock_ns();
  for (uint32_t i = 0; i < count; i++) {
    must(weft_transfer_post(transfer), "post");
    finish(transfer);
  }
  uint64_t mean = (clock_ns() - begun) / count;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t from = clock_ns();
    must(weft_transfer_post(transfer), "post");
    finish(transfer);
    times[i] = clock_ns() - from;
  }
  return (struct turn){.latency = median(times, count), .mean = mean};
}

static void print(const char *what, uint64_t block, uint64_t tool, uint64_t bare) {
  printf("%8" PRIu64 " B  %-8s  tool %8" PRIu64 " ns  bare %8" PRIu64 " ns  overhead %6.2f %%\n", block, what, tool,
         bare, ((double)tool / (double)bare - 1) * 100);
}

static void compare(struct side *side, uint64_t block, uint32_t count, uint32_t turns) {
  static uint64_t latency[2][MOST_TURNS], mean[2][MOST_TURNS];
  struct transfer_load load = {.agent = side->agent,
                               .op = WEFT_TRANSFER_WRITE,
                               .transport = "shm",
                               .block = block,
                               .batch = 1,
                               .group = 1,
                               .depth = 1,
                               .iterations = count,
                               .variants = 1,
                               .timeout_ms = 30000,
                               .place = place,
                               .arg = side};
  struct transfer_lane lane;
  must(transfer_lane_open(&lane, &load, 0), "make transfers");
  run_tool(&lane, count); // a warm-up for both
  for (uint32_t i = 0; i < turns; i++) {
    struct turn tool = run_tool(&lane, count), bare = run_bare(lane.requests[0].transfer, count);
    latency[0][i] = tool.latency;
    latency[1][i] = bare.latency;
    mean[0][i] = tool.mean;
    mean[1][i] = bare.mean;
  }
  print("latency", block, median(latency[0], turns), median(latency[1], turns));
  print("mean", block, median(mean[0], turns), median(mean[1], turns));
  transfer_lane_close(&lane);
}

int main(int argc, char **argv) {
  static struct side side;
  int pair[2];
  unsigned turns = argc > 1 ? (unsigned)atoi(argv[1]) : 31;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || turns < 1 || turns > MOST_TURNS)
    return 1;
  signal(SIGPIPE, SIG_IGN);
  pid_t child = fork();
  close(pair[child == 0]);
  open_side(&side, child == 0 ? "target" : "initiator");
  exchange(pair[child != 0], &side);
  char word;
  if (child == 0) {
    while (read(pair[0], &word, 1) > 0) // until the initiator has closed its end
      ;
  } else {
    compare(&side, 8, MOST_COUNT, turns);
    compare(&side, BYTES, 500, turns);
    close(pair[1]);
    waitpid(child, NULL, 0);
  }
  transfer_buffer_close(&side.buffer);
  weft_agent_close(side.agent);
  return 0;
}
