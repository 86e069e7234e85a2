// Compares random reads of a file that bypass the page cache, 32 at once, by the transport `file` and by fio, by turns:
// reads per second and their ratio.
// Usage: bench_transport_file [--json] [--threads] [FOLDER], with 1 GiB of room. fio has to be installed. With
// --threads any thread may use the worker, as in an agent, so that it cannot use the parts of io_uring that are for one
// thread.
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/random.h"
#include "base/time/clock.h"
#include "support/values.h"
#include "transport/transport.h"

enum { SPIN_NS = 50000 };
enum { FILE_BYTES = 1 << 30, DEPTH = 32, ROUNDS = 7, ROUND_MS = 400, LIST = 8192, MAX_BLOCK = 128 << 10 };

static char path[512];
static struct transport_worker *worker;
static struct transport_peer *peer;
static struct transport_region *host, *file;
static struct transport_remote *remote;
static uint8_t *memory;
static uint64_t ended, deadline, seed = 1;

static void need(int rc, const char *what) {
  if (rc >= 0)
    return;
  fprintf(stderr, "bench_transport_file: %s: %s\n", what, weft_last_error());
  unlink(path);
  exit(1);
}

static void make_file(const char *folder, bool threads) {
  snprintf(path, sizeof path, "%s/weft-bench-XXXXXX", folder);
  int fd = mkstemp(path);
  uint8_t *block = malloc(MAX_BLOCK);
  for (uint64_t at = 0; fd >= 0 && at < FILE_BYTES; at += MAX_BLOCK) {
    memset(block, (int)(at / MAX_BLOCK), MAX_BLOCK);
    if (write(fd, block, MAX_BLOCK) != MAX_BLOCK) {
      fprintf(stderr, "bench_transport_file: cannot write %s\n", path);
      unlink(path);
      exit(1);
    }
  }
  free(block);
  if (fd < 0 || fsync(fd) < 0)
    need(-1, "cannot make a file");
  const struct transport *transport = NULL;
  need(transport_find("file", &transport), "find");
  static const char *const settings[] = {"engine=uring", "depth=32", NULL};
  need(transport->open(&(struct transport_options){.size = sizeof(struct transport_options),
                                                   .settings = settings,
                                                   .threads = threads},
                       &worker),
       "open");
  char bytes[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof bytes;
  need(transport->address(worker, bytes, &size), "address");
  need(transport->connect(worker, bytes, size, NULL, &peer), "connect");
  memory = mmap(NULL, (size_t)DEPTH * MAX_BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct transport_memory of_host = {
      .kind = WEFT_MEMORY_HOST, .address = memory, .length = (uint64_t)DEPTH * MAX_BLOCK, .fd = -1};
  struct transport_memory of_file = {.kind = WEFT_MEMORY_FILE, .fd = fd, .path = path};
  need(transport->reg(worker, &of_host, &host), "reg");
  need(transport->reg(worker, &of_file, &file), "reg");
  size = sizeof bytes;
  need(transport->pack(file, bytes, &size), "pack");
  need(transport->import(peer, bytes, size, &remote), "import");
}

static void place(struct transport_piece *piece, uint32_t slot, uint32_t block) {
  *piece = (struct transport_piece){host, remote, (uint64_t)(uintptr_t)(memory + (size_t)slot * block),
                                    random_next(&seed) % (FILE_BYTES / block) * block, block};
}

// Waits as an agent does: it spins for a moment, then sleeps.
static void drive(const struct transport_request *requests, uint32_t count) {
  uint64_t last = clock_ns();
  for (uint32_t i = 0; i < count; i++) {
    while (atomic_load_explicit(&requests[i].state, memory_order_acquire) == TRANSPORT_IN_FLIGHT) {
      if (worker->transport->progress(worker) > 0)
        last = clock_ns();
      else if (clock_ns() - last > SPIN_NS && worker->transport->arm(worker) == 0)
        poll(&(struct pollfd){.fd = worker->transport->fd(worker), .events = POLLIN}, 1, 1000);
    }
    need(requests[i].state, requests[i].why);
  }
}

// Transfers with a long list of reads each.
static double run_list(uint32_t block) {
  static struct transport_piece pieces[LIST];
  uint32_t count = block > 4096 ? LIST / 4 : LIST;
  struct transport_request request = {.peer = peer, .op = WEFT_TRANSFER_READ, .pieces = pieces, .num_pieces = count};
  for (uint32_t i = 0; i < count; i++)
    place(&pieces[i], i % DEPTH, block);
  need(worker->transport->prepare(&request), "prepare");
  uint64_t start = clock_ns(), reads = 0;
  for (deadline = clock_deadline_ms(ROUND_MS); !clock_passed(deadline); reads += count) {
    need(worker->transport->post(&request), "post");
    drive(&request, 1);
  }
  double seconds = (double)(clock_ns() - start) / 1e9;
  worker->transport->unprepare(&request);
  return (double)reads / seconds;
}

static void again(struct transport_request *request) {
  ended++;
  struct transport_piece *piece = request->arg;
  uint32_t block = (uint32_t)piece->length;
  piece->remote_address = random_next(&seed) % (FILE_BYTES / block) * block;
  if (request->state == 0 && !clock_passed(deadline))
    worker->transport->post(request);
}

// The same number of transfers with one read each.
static double run_single(uint32_t block) {
  static struct transport_piece pieces[DEPTH];
  static struct transport_request requests[DEPTH];
  ended = 0;
  for (uint32_t i = 0; i < DEPTH; i++) {
    place(&pieces[i], i, block);
    requests[i] = (struct transport_request){.peer = peer,
                                             .op = WEFT_TRANSFER_READ,
                                             .pieces = &pieces[i],
                                             .num_pieces = 1,
                                             .done = again,
                                             .arg = &pieces[i]};
    need(worker->transport->prepare(&requests[i]), "prepare");
  }
  uint64_t start = clock_ns();
  deadline = clock_deadline_ms(ROUND_MS);
  for (uint32_t i = 0; i < DEPTH; i++)
    need(worker->transport->post(&requests[i]), "post");
  drive(requests, DEPTH);
  double seconds = (double)(clock_ns() - start) / 1e9;
  for (uint32_t i = 0; i < DEPTH; i++)
    worker->transport->unprepare(&requests[i]);
  return (double)ended / seconds;
}

static double run_fio(uint32_t block) {
  char command[1024], line[4096] = "";
  snprintf(command, sizeof command,
           "fio --name=r --filename=%s --rw=randread --bs=%u --size=%d --direct=1 --ioengine=io_uring --iodepth=%d "
           "--fixedbufs=1 --registerfiles=1 --norandommap --thread --time_based --runtime=%dms --output-format=terse",
           path, block, FILE_BYTES, DEPTH, ROUND_MS);
  FILE *fio = popen(command, "r");
  bool got = fio && fgets(line, sizeof line, fio);
  if (fio)
    pclose(fio);
  const char *field = line;
  for (int i = 0; i < 7 && field; i++) // the eighth field is the reads per second
    field = (field = strchr(field, ';')) ? field + 1 : NULL;
  if (!got || !field) {
    fprintf(stderr, "bench_transport_file: no figures from fio\n");
    unlink(path);
    exit(1);
  }
  return atof(field);
}

static double median(double values[ROUNDS]) {
  return bench_median(values, ROUNDS);
}

static void measure(uint32_t block, bool json, bool last) {
  double list[ROUNDS], single[ROUNDS], fio[ROUNDS], list_ratio[ROUNDS], single_ratio[ROUNDS];
  for (uint32_t i = 0; i < ROUNDS; i++) {
    list[i] = run_list(block);
    fio[i] = run_fio(block);
    single[i] = run_single(block);
    list_ratio[i] = list[i] / fio[i];
    single_ratio[i] = single[i] / fio[i];
  }
  if (json)
    printf("  {\"block\": %u, \"list\": %.0f, \"single\": %.0f, \"fio\": %.0f, \"list_ratio\": %.3f, \"single_ratio\": "
           "%.3f}%s\n",
           block, median(list), median(single), median(fio), median(list_ratio), median(single_ratio), last ? "" : ",");
  else
    printf("%9u %14.0f %14.0f %14.0f %10.3f %10.3f\n", block, median(list), median(single), median(fio),
           median(list_ratio), median(single_ratio));
}

int main(int argc, char **argv) {
  bool json = false, threads = false;
  const char *folder = ".";
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0)
      json = true;
    else if (strcmp(argv[i], "--threads") == 0)
      threads = true;
    else
      folder = argv[i];
  }
  make_file(folder, threads);
  printf("%s\n", json ? "[" : "    block   list reads/s one each reads/s  fio reads/s   list/fio  each/fio");
  measure(4096, json, false);
  measure(128 << 10, json, true);
  if (json)
    printf("]\n");
  worker->transport->close(worker);
  unlink(path);
  return 0;
}
