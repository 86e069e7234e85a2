// Copies within a GPU, from and to the host's memory, and between two GPUs, timed by the GPU itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "device/device.h"
#include "limits/measured/measured.h"

enum { LARGE = 64 << 20, SMALL = 4 << 20, PIECES = 256, TIMES = 8, TRIES = 3, WAIT_MS = 10000, NEVER_FD = -1 };

// One direction that is measured: `device` copies.
struct way {
  const struct device_api *api;
  struct device *device;
  void *stream, *begin, *end;
  char *to;
  const char *from;
};

// Launches a copy of so many bytes so many times; by a kernel, cut into pieces, or by the copy engine.
static int launch(const struct way *way, struct device_copies *pieces, uint64_t size, char *why) {
  int rc = way->api->event_record(way->device, way->begin, way->stream, why);
  if (rc == 0 && pieces)
    rc = way->api->copies_run(pieces, way->stream, why);
  for (int i = 0; i < TIMES && rc == 0 && !pieces; i++)
    rc = way->api->copy(way->device, way->to, way->from, size, way->stream, false, why);
  return rc == 0 ? way->api->event_record(way->device, way->end, way->stream, why) : rc;
}

// The stream has finished, so the copies have passed; this only makes the API notice it.
static int see_passed(const struct way *way, struct device_copies *pieces, char *why) {
  uint64_t deadline_ns = clock_deadline_ms(WAIT_MS);
  bool passed = false;
  int rc = 0;
  while (rc == 0 && !passed && !clock_passed(deadline_ns))
    rc = way->api->copies_passed(pieces, &passed, why);
  if (rc == 0 && !passed) {
    snprintf(why, DEVICE_WHY, "the copies of a kernel did not end within %d ms", WAIT_MS);
    return WEFT_ERR_TIMEOUT;
  }
  return rc;
}

static int try_once(const struct way *way, struct device_copies *pieces, uint64_t size, double *gbps, char *why) {
  uint64_t ns = 0;
  int rc = launch(way, pieces, size, why);
  if (rc == 0)
    rc = way->api->stream_wait(way->device, way->stream, WAIT_MS, why);
  if (rc == 0 && pieces)
    rc = see_passed(way, pieces, why);
  if (rc == 0)
    rc = way->api->event_elapsed(way->device, way->begin, way->end, &ns, why);
  double rate = rc == 0 && ns > 0 ? (double)size * TIMES / (double)ns : 0;
  *gbps = rate > *gbps ? rate : *gbps;
  return rc;
}

// All of it so many times, so that one launch is as long as those of the copy engine.
static int cut(const struct way *way, uint64_t size, struct device_copies **pieces, char *why) {
  struct device_copy list[PIECES * TIMES];
  for (uint32_t i = 0; i < PIECES * TIMES; i++) {
    uint64_t at = size / PIECES * (i % PIECES);
    list[i] = (struct device_copy){.to = way->to + at, .from = way->from + at, .size = size / PIECES};
  }
  return way->api->copies_open(way->device, list, PIECES * TIMES, pieces, why);
}

// The best of both ways to copy, of a size that fits the GPU's caches and of one that does not.
static int measure_way(const struct limits_try *one, const struct way *way, double *gbps) {
  static const uint64_t sizes[] = {SMALL, LARGE};
  char why[DEVICE_WHY] = "";
  int rc = 0;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes && rc == 0; s++) {
    struct device_copies *pieces = NULL;
    rc = cut(way, sizes[s], &pieces, why);
    for (int i = 0; i < 2 * TRIES && rc == 0; i++) {
      if (limits_check_stopped(one) != 0) {
        way->api->copies_close(pieces);
        return WEFT_ERR_CANCELED;
      }
      rc = try_once(way, i % 2 ? pieces : NULL, sizes[s], gbps, why);
    }
    way->api->copies_close(pieces);
  }
  return rc == 0 ? 0 : device_fail(rc, "cannot measure a GPU's copies", why);
}

static int open_way(struct way *way, const struct device_api *api, int index) {
  char why[DEVICE_WHY] = "";
  *way = (struct way){.api = api};
  int rc = api->open(index, &way->device, why);
  if (rc == 0)
    rc = api->stream_open(way->device, &way->stream, why);
  if (rc == 0)
    rc = api->event_open(way->device, &way->begin, why);
  if (rc == 0)
    rc = api->event_open(way->device, &way->end, why);
  return rc == 0 ? 0 : device_fail(rc, "cannot measure a GPU", why);
}

static void close_way(struct way *way) {
  if (!way->device)
    return;
  way->api->event_close(way->device, way->begin);
  way->api->event_close(way->device, way->end);
  way->api->stream_close(way->device, way->stream);
  way->api->close(way->device);
}

static int add(const struct limits_try *one, enum limits_kind kind, uint32_t from, uint32_t to, double gbps) {
  static const char *const names[] = {
      [LIMITS_GPU_MEMORY] = "gpu memory", [LIMITS_GPU_LINK] = "link", [LIMITS_GPU_HOST] = "pcie"};
  const struct limits_places *places = &one->limits->places;
  struct limits_entry entry = {.kind = kind, .gbps = gbps, .measured = true};
  if (!(gbps > 0) || !places->gpu_address(from, entry.device) ||
      (kind == LIMITS_GPU_LINK && !places->gpu_address(to, entry.other)))
    return 0;
  snprintf(entry.name, sizeof entry.name, "%s %.15s%s%.15s", names[kind], entry.device, *entry.other ? " to " : "",
           entry.other);
  snprintf(entry.detail, sizeof entry.detail,
           "copies of %d and %d MiB by copy engines and by a kernel, timed by the GPU (GPU %u%s): the best of them",
           SMALL >> 20, LARGE >> 20, from, kind == LIMITS_GPU_HOST ? ", to the host's pinned memory and back" : "");
  return limits_table_add(&one->limits->table, &entry);
}

// --- within a GPU, and with the host ---

static int measure_host(const struct limits_try *one, struct way *way, char *memory, double *gbps) {
  char why[DEVICE_WHY] = "";
  char *pinned = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pinned == MAP_FAILED)
    return fail(WEFT_ERR_NOMEM, "no %d MiB of host memory for a GPU's copies", LARGE >> 20);
  memset(pinned, 1, LARGE);
  int rc = way->api->pin(pinned, LARGE, why);
  if (rc != 0) {
    munmap(pinned, LARGE);
    return device_fail(rc, "cannot measure a GPU's copies", why);
  }
  way->to = memory, way->from = pinned;
  rc = measure_way(one, way, gbps);
  way->to = pinned, way->from = memory;
  if (rc == 0)
    rc = measure_way(one, way, gbps);
  way->api->unpin(pinned, LARGE);
  munmap(pinned, LARGE);
  return rc;
}

static int measure_own(const struct limits_try *one, const struct device_api *api, int index) {
  struct way way;
  char why[DEVICE_WHY] = "";
  void *memory = NULL;
  double within = 0, host = 0;
  int rc = open_way(&way, api, index);
  if (rc == 0 && (rc = api->allocate(way.device, 2 * (size_t)LARGE, &memory, why)) != 0)
    rc = device_fail(rc, "cannot measure a GPU", why);
  if (rc == 0) {
    way.from = memory, way.to = (char *)memory + LARGE;
    rc = measure_way(one, &way, &within);
  }
  if (rc == 0)
    rc = measure_host(one, &way, memory, &host);
  if (memory)
    api->release(way.device, memory);
  close_way(&way);
  if (rc == 0)
    rc = add(one, LIMITS_GPU_MEMORY, (uint32_t)index, 0, within);
  return rc == 0 ? add(one, LIMITS_GPU_HOST, (uint32_t)index, 0, host) : rc;
}

// --- between two ---

// A window of the other one's memory, which this one maps: that is how peers reach each other.
static int measure_mapped(const struct limits_try *one, struct way *way, int peer, double *gbps) {
  const struct device_api *api = way->api;
  struct device *other = NULL;
  struct device_window theirs = {0}, here = {0};
  char why[DEVICE_WHY] = "";
  void *memory = NULL;
  int fd = NEVER_FD;
  int rc = api->open(peer, &other, why);
  if (rc == 0)
    rc = api->window_create(other, LARGE, &theirs, &fd, why);
  if (rc == 0)
    rc = api->window_map(way->device, LARGE, fd, &here, why);
  if (rc == 0)
    rc = api->allocate(way->device, LARGE, &memory, why);
  if (rc == 0) {
    way->from = memory, way->to = here.memory;
    rc = measure_way(one, way, gbps);
  } else {
    device_fail(rc, "cannot map a GPU's memory for another one", why);
  }
  if (memory)
    api->release(way->device, memory);
  if (here.memory)
    api->window_release(way->device, &here);
  if (theirs.memory)
    api->window_release(other, &theirs);
  if (fd >= 0)
    close(fd);
  if (other)
    api->close(other);
  return rc;
}

static int measure_link(const struct limits_try *one, const struct device_api *api, int from, int to) {
  struct way way;
  char why[DEVICE_WHY];
  double gbps = 0;
  if (api->check_peer(from, to, why) != 0) // then copies go through the host's memory, whose bound is described
    return 0;
  int rc = open_way(&way, api, from);
  if (rc == 0)
    rc = measure_mapped(one, &way, to, &gbps);
  close_way(&way);
  return rc == 0 ? add(one, LIMITS_GPU_LINK, (uint32_t)from, (uint32_t)to, gbps) : rc;
}

// A faulty GPU does not discard the measurements of the rest of the host.
static int not_here(int rc) {
  char why[512];
  if (rc == 0 || rc == WEFT_ERR_CANCELED || rc == WEFT_ERR_NOMEM)
    return rc;
  snprintf(why, sizeof why, "%s", weft_last_error());
  return fail(WEFT_ERR_UNSUPPORTED, "%s", why);
}

int limits_measure_gpus(const struct limits_try *one) {
  const struct device_api *api;
  char why[DEVICE_WHY] = "";
  int count = 0;
  int rc = device_load(&api);
  if (rc == 0 && (rc = api->count(&count, why)) != 0)
    rc = device_fail(rc, "there is no GPU to measure", why);
  for (int i = 0; i < count && rc == 0; i++)
    rc = measure_own(one, api, i);
  for (int i = 0; i < count * count && rc == 0; i++)
    if (i / count != i % count)
      rc = measure_link(one, api, i / count, i % count);
  return not_here(rc);
}
