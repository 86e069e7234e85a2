// Files and objects: this process's own memory against storage, without a peer.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "p2p/bench.h"

enum { MOST_PLACES = 256, PATH_SIZE = 4096 };

struct storage {
  struct p2p_bench bench;
  weft_region_t places[MOST_PLACES];
  bool made; // the file did not exist before
};

// Whether anything is written to the storage.
static bool writes(const struct p2p_config *config) {
  return config->op != P2P_OP_READ || !config->no_check;
}

static int refuse_existing(const char *what, const char *path) {
  return fail(WEFT_ERR_EXISTS,
              "%s %s exists already, and this would overwrite it: name another --path, give --overwrite, or only read "
              "it with --op read --no-check",
              what, path);
}

static int register_one(struct storage *storage, const char *path, weft_region_t *region) {
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  const struct p2p_config *config = storage->bench.config;
  memory.kind = config->memory == P2P_MEMORY_FILE ? WEFT_MEMORY_FILE : WEFT_MEMORY_OBJECT;
  memory.path = path;
  memory.flags = writes(config) ? 0 : WEFT_MEMORY_READ_ONLY;
  return weft_agent_register(storage->bench.session.agent, &memory, region);
}

// --- a file: places follow each other ---

static int make_file(struct storage *storage) {
  const struct p2p_config *config = storage->bench.config;
  if (!writes(config))
    return 0;
  int fd = open(config->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0 && errno == EEXIST)
    return config->overwrite ? 0 : refuse_existing("the file", config->path);
  if (fd < 0)
    return fail_errno(errno, "cannot make the file %s", config->path);
  close(fd);
  storage->made = true;
  return 0;
}

static int open_file(struct storage *storage) {
  const char *path = storage->bench.config->path;
  int rc = make_file(storage);
  if (rc == 0)
    rc = register_one(storage, path, &storage->bench.remote.region);
  if (storage->made) // the agent has it open, so nothing of it remains when this process ends in any way
    unlink(path);
  return rc;
}

// --- objects: each place is a separate object, since an object is always written as a whole ---

// Reads the object's first byte to find out whether the object exists.
static int probe(struct storage *storage, weft_region_t region, const char *path) {
  struct p2p_bench *bench = &storage->bench;
  struct p2p_remote one = {.each = &region};
  struct p2p_load load = {.op = WEFT_TRANSFER_READ, .bytes = 1, .iterations = 1, .depth = 1};
  struct histogram latency;
  char transport[32];
  int rc = p2p_latency(&bench->session, &load, &bench->buffer, &one, &latency, transport);
  if (rc == WEFT_ERR_NOT_FOUND)
    return 0;
  return rc == 0 || rc == WEFT_ERR_LIMIT ? refuse_existing("the object", path) : rc; // LIMIT: it is empty
}

// KEY, KEY.1, KEY.2, ...; all places are KEY if its existing bytes are read.
static int open_objects(struct storage *storage) {
  const struct p2p_config *config = storage->bench.config;
  char path[PATH_SIZE];
  int rc = 0;
  for (uint32_t i = 0; i < config->depth && rc == 0; i++) {
    bool own = i == 0 || !writes(config);
    if (own)
      snprintf(path, sizeof path, "%s", config->path);
    else
      snprintf(path, sizeof path, "%.4000s.%u", config->path, i);
    rc = register_one(storage, path, &storage->places[i]);
    if (rc == 0 && writes(config) && !config->overwrite)
      rc = probe(storage, storage->places[i], path);
  }
  storage->bench.remote.each = storage->places;
  return rc;
}

// --- contents ---

// Moves each place once, untimed.
static int move(struct p2p_bench *bench, const struct p2p_load *load, enum weft_transfer_op op) {
  struct p2p_load all = *load;
  double gbps;
  all.op = op;
  all.iterations = 1;
  all.warmup = 0;
  return p2p_bandwidth(&bench->session, &all, &bench->buffer, &bench->remote, &gbps);
}

static int fill(struct p2p_bench *bench, const struct p2p_load *load, uint32_t places) {
  uint64_t bytes = load->bytes * places;
  bench->seed += 2;
  int rc = p2p_buffer_fill(&bench->buffer, bench->seed, bytes);
  if (rc != 0 || load->op == WEFT_TRANSFER_WRITE)
    return rc;
  rc = move(bench, load, WEFT_TRANSFER_WRITE);
  return rc == 0 ? p2p_buffer_fill(&bench->buffer, bench->seed + 1, bytes) : rc;
}

static int check(struct p2p_bench *bench, const struct p2p_load *load, uint32_t places) {
  uint64_t bytes = load->bytes * places;
  int rc = 0;
  if (load->op == WEFT_TRANSFER_WRITE) {
    rc = p2p_buffer_fill(&bench->buffer, bench->seed + 1, bytes);
    if (rc == 0)
      rc = move(bench, load, WEFT_TRANSFER_READ);
  }
  return rc == 0 ? p2p_buffer_check(&bench->buffer, bench->seed, bytes) : rc;
}

static const struct p2p_bench_ends ends = {.fill = fill, .check = check};

// --- all of it ---

static int run(struct storage *storage) {
  struct p2p_bench *bench = &storage->bench;
  struct p2p_config config = *bench->config;
  bool file = config.memory == P2P_MEMORY_FILE;
  if (!config.transport)
    config.transport = p2p_memory_names[config.memory];
  config.token = NULL;
  int rc = p2p_session_open(&bench->session, &config, NULL);
  if (rc != 0)
    return rc;
  bench->session.peer = WEFT_PEER_SELF;
  rc = p2p_buffer_open(&bench->buffer, bench->session.agent, P2P_MEMORY_HOST, 0,
                       p2p_buffer_bytes(&config, bench->sizes));
  if (rc == 0)
    rc = file ? open_file(storage) : open_objects(storage);
  if (rc == 0)
    rc = p2p_bench_run(bench);
  p2p_buffer_close(&bench->buffer);
  p2p_session_close(&bench->session);
  return rc;
}

int p2p_storage(const struct p2p_config *config, const struct p2p_sizes *sizes) {
  struct storage storage = {.bench = {.config = config, .sizes = sizes, .ends = &ends, .seed = 1}};
  struct p2p_report *report = &storage.bench.report;
  int rc = p2p_report_begin(report, stdout, config, sizes);
  if (rc != 0)
    return rc;
  snprintf(report->ends.here, sizeof report->ends.here, "%s", p2p_memory_names[P2P_MEMORY_HOST]);
  snprintf(report->ends.there, sizeof report->ends.there, "%s", p2p_memory_names[config->memory]);
  rc = run(&storage);
  int reported = p2p_report_end(report, rc);
  return rc != 0 ? rc : reported;
}
