// Measures what one more peer costs an agent that knows many: loading it, looking it up, its death, and its heartbeats.
//   agent_peers [--json]
// The peers are only metadata, over a transport within this process; none of them answers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <weft/agent.h>

#include "agent/metadata/describe.h"
#include "agent/open.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "support/loop.h"
#include "support/values.h"

enum { SAMPLES = 64, FINDS = 20000, REGIONS = 4, IDLE_MS = 2000 };

struct blob {
  void *bytes;
  size_t size;
};

struct figures {
  uint32_t peers;
  double load_us, load_max_us, find_ns, death_us, death_max_us, idle_percent;
};

static void require(int err, const char *what) {
  if (err == 0)
    return;
  fprintf(stderr, "agent_peers: %s: %s\n", what, weft_last_error());
  exit(3);
}

static weft_agent_t *open_agent(const char *name, enum weft_agent_progress progress) {
  static const struct transport *const more[] = {&transport_loop, NULL};
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  weft_agent_t *agent;
  options.name = name;
  options.transports = "loop";
  options.progress = progress;
  require(agent_open_with(&agent, &options, more), "an agent");
  return agent;
}

// Metadata of a peer that does not exist: the address of `body` under another name.
static struct blob make_blob(const struct agent_description *body, uint32_t number) {
  static struct agent_region_description regions[REGIONS];
  static const char bytes[64];
  static const struct agent_key key = {.transport = 0, .size = sizeof bytes, .bytes = bytes};
  struct agent_description description = *body;
  struct blob blob = {0};
  for (uint32_t i = 0; i < REGIONS; i++)
    regions[i] = (struct agent_region_description){
        .id = i + 1, .address = (i + 1) << 20, .length = 1 << 20, .num_keys = 1, .keys = &key};
  snprintf(description.name, sizeof description.name, "peer-%u", number);
  snprintf(description.host, sizeof description.host, "elsewhere");
  random_bytes(description.key, sizeof description.key); // any bytes are a valid public key of X25519
  require(agent_incarnation(description.name, description.key, &description.incarnation), "an incarnation");
  description.regions = regions;
  description.num_regions = REGIONS;
  agent_blob_write(&description, NULL, NULL, &blob.size);
  blob.bytes = malloc(blob.size);
  require(blob.bytes ? agent_blob_write(&description, NULL, blob.bytes, &blob.size) : WEFT_ERR_NOMEM, "a blob");
  return blob;
}

static weft_peer_t load(weft_agent_t *agent, const struct agent_description *body, uint32_t number, uint64_t *ns) {
  struct blob blob = make_blob(body, number);
  weft_peer_t peer;
  uint64_t begin = clock_ns();
  require(weft_agent_load(agent, blob.bytes, blob.size, &peer), "a load");
  *ns = clock_ns() - begin;
  free(blob.bytes);
  return peer;
}

static double median_us(uint64_t *ns, double *max) {
  bench_sort_ns(ns, SAMPLES);
  *max = (double)ns[SAMPLES - 1] / 1e3;
  return (double)ns[SAMPLES / 2] / 1e3;
}

// Lets the agent do all pending work, including the first heartbeats.
static void settle(weft_agent_t *agent) {
  for (int i = 0; i < 100; i++)
    require(weft_agent_progress(agent, NULL), "progress");
}

static double measure_finds(weft_agent_t *agent, uint32_t peers) {
  char name[32];
  weft_peer_t peer;
  uint64_t random = 1, begin = clock_ns(), format_begin;
  for (int i = 0; i < FINDS; i++) {
    snprintf(name, sizeof name, "peer-%u", (uint32_t)(random_next(&random) % peers));
    require(weft_agent_find(agent, name, &peer), "a look-up");
  }
  uint64_t all = clock_ns() - begin;
  format_begin = clock_ns();
  for (int i = 0; i < FINDS; i++)
    snprintf(name, sizeof name, "peer-%u", (uint32_t)(random_next(&random) % peers));
  return ((double)all - (double)(clock_ns() - format_begin)) / FINDS;
}

// Time from the message of a death until the agent has handled it.
static double measure_deaths(weft_agent_t *agent, const weft_peer_t *ids, uint32_t peers, double *max) {
  uint64_t ns[SAMPLES];
  for (uint32_t i = 0; i < SAMPLES; i++) {
    weft_peer_t id = ids[(uint64_t)i * peers / SAMPLES];
    uint64_t begin = clock_ns();
    agent_peer_lost(agent, id, "it is dead");
    require(weft_agent_progress(agent, NULL), "progress");
    ns[i] = clock_ns() - begin;
    if (weft_agent_check(agent, id) != WEFT_ERR_PEER_LOST)
      require(WEFT_ERR_INVALID, "a dead peer that lives");
  }
  return median_us(ns, max);
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

// Percent of a processor that an idle agent takes.
static double measure_idle(const struct agent_description *body, uint32_t peers) {
  weft_agent_t *agent = open_agent("idler", WEFT_AGENT_PROGRESS_NONE);
  uint64_t ns;
  for (uint32_t i = 0; i < peers; i++)
    load(agent, body, i, &ns);
  settle(agent);
  double begin = cpu_seconds();
  uint64_t until = clock_deadline_ms(IDLE_MS);
  while (!clock_passed(until)) {
    require(weft_agent_progress(agent, NULL), "progress");
    struct timespec nap = clock_timespec(10000000);
    nanosleep(&nap, NULL);
  }
  double percent = (cpu_seconds() - begin) / (IDLE_MS / 1e3) * 100;
  weft_agent_close(agent);
  return percent;
}

static struct figures measure(const struct agent_description *body, uint32_t peers) {
  struct figures figures = {.peers = peers};
  weft_agent_t *agent = open_agent("knower", WEFT_AGENT_PROGRESS_NONE);
  weft_peer_t *ids = calloc(peers, sizeof *ids);
  uint64_t ns[SAMPLES], other;
  for (uint32_t i = 0; i < peers; i++)
    ids[i] = load(agent, body, i, &other);
  settle(agent);
  for (uint32_t i = 0; i < SAMPLES; i++) {
    weft_peer_t more = load(agent, body, peers + i, &ns[i]);
    require(weft_agent_invalidate(agent, more), "an end");
  }
  figures.load_us = median_us(ns, &figures.load_max_us);
  settle(agent);
  figures.find_ns = measure_finds(agent, peers);
  figures.death_us = measure_deaths(agent, ids, peers, &figures.death_max_us);
  weft_agent_close(agent);
  free(ids);
  figures.idle_percent = measure_idle(body, peers);
  return figures;
}

int main(int argc, char **argv) {
  static const uint32_t numbers[] = {64, 250, 1000, 4000};
  bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
  weft_agent_t *agent = open_agent("body", WEFT_AGENT_PROGRESS_NONE);
  struct agent_description *body;
  require(agent_describe(agent, NULL, 0, true, &body), "a description");
  if (!json)
    printf("%6s %10s %10s %10s %10s %10s %12s\n", "peers", "load us", "(most)", "find ns", "death us", "(most)",
           "idle CPU %");
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct figures f = measure(body, numbers[i]);
    printf(json ? "{\"peers\":%u,\"load_us\":%.2f,\"load_max_us\":%.2f,\"find_ns\":%.0f,\"death_us\":%.2f,"
                  "\"death_max_us\":%.2f,\"idle_percent\":%.3f}\n"
                : "%6u %10.2f %10.2f %10.0f %10.2f %10.2f %12.3f\n",
           f.peers, f.load_us, f.load_max_us, f.find_ns, f.death_us, f.death_max_us, f.idle_percent);
    fflush(stdout);
  }
  free(body);
  weft_agent_close(agent);
  return 0;
}
