#include "carry/carry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

enum { RANKS = 4, BLOCKS = 64, SKIPPED = 77 };

static struct {
  const struct device_api *api; // NULL: host memory
  struct device *devices[RANKS];
  void *memory[RANKS][BLOCKS];
  uint32_t used[RANKS];
  pthread_barrier_t meeting;
  void (*body)(struct carry *);
} run;

int carry_must(int rc, const char *what) {
  if (rc >= 0)
    return rc;
  fprintf(stderr, "%s: %s: %s\n", what, weft_err_name(rc), weft_last_error());
  exit(1);
}

void carry_is(bool so, const char *what) {
  if (so)
    return;
  fprintf(stderr, "it is not so that %s\n", what);
  exit(1);
}

void carry_refused(int rc, int code, const char *words) {
  if (rc == code && strstr(weft_last_error(), words))
    return;
  fprintf(stderr, "%s: \"%s\", should be %s with \"%s\"\n", weft_err_name(rc), weft_last_error(), weft_err_name(code),
          words);
  exit(1);
}

void *carry_memory(struct carry *c, size_t size) {
  char why[DEVICE_WHY] = "";
  void **memory = &run.memory[c->rank][run.used[c->rank]++];
  carry_is(run.used[c->rank] <= BLOCKS, "a rank has so few blocks of memory");
  if (!run.api)
    *memory = calloc(1, size);
  else if (run.api->allocate(run.devices[c->rank], size, memory, why) != 0)
    *memory = NULL;
  carry_is(*memory != NULL, "there is memory");
  return *memory;
}

void carry_copy(struct carry *c, void *to, const void *from, size_t size) {
  char why[DEVICE_WHY] = "";
  if (!run.api)
    memcpy(to, from, size);
  else
    carry_is(run.api->copy(run.devices[c->rank], to, from, size, c->stream, true, why) == 0, "memory can be copied");
}

void carry_meet(struct carry *c) {
  (void)c;
  pthread_barrier_wait(&run.meeting);
}

void carry_found(struct carry *c, uint32_t founders) {
  static const int32_t ranks[RANKS] = {0, 1, 2, 3};
  c->options.founders = ranks;
  c->options.num_founders = founders;
  carry_must(weft_ep_open(&c->ep, &c->options, CARRY_MS), "open");
  carry_must(weft_ep_activate(c->ep, CARRY_MS), "activate");
}

uint16_t carry_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float carry_f32(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

void carry_fill_rows(struct carry *c, void *to, uint32_t rows, uint32_t hidden, float first, float step) {
  size_t count = (size_t)rows * hidden;
  uint16_t *values = malloc(count * sizeof *values);
  carry_is(values != NULL, "there is memory");
  for (size_t i = 0; i < count; i++)
    values[i] = carry_bf16(first + (float)(i / hidden) * step);
  carry_copy(c, to, values, count * sizeof *values);
  free(values);
}

static void *run_rank(void *arg) {
  struct carry *c = arg;
  run.body(c);
  carry_meet(c);
  weft_ep_close(c->ep);
  return NULL;
}

// Which device each rank is on, and how many of its processors are a rank's.
static void share_devices(struct carry *ranks, uint32_t count, int devices) {
  char why[DEVICE_WHY] = "";
  for (uint32_t i = 0; i < count; i++) {
    int device = (int)i % devices;
    uint32_t sharers = (count - 1 - (uint32_t)device) / (uint32_t)devices + 1;
    struct device_info info;
    carry_is(run.api->open(device, &run.devices[i], why) == 0, "the GPU can be opened");
    carry_is(run.api->describe(device, &info, why) == 0, "the GPU can be described");
    carry_is(run.api->stream_open(run.devices[i], &ranks[i].stream, why) == 0, "there is a stream");
    ranks[i].options.memory = WEFT_EP_MEMORY_CUDA;
    ranks[i].options.device = device;
    ranks[i].options.max_processors = sharers > 1 ? info.processors / sharers : 0;
  }
}

static void free_all(struct carry *ranks, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t b = 0; b < run.used[i] && !run.api; b++)
      free(run.memory[i][b]);
    for (uint32_t b = 0; b < run.used[i] && run.api; b++)
      run.api->release(run.devices[i], run.memory[i][b]);
    if (run.api)
      run.api->stream_close(run.devices[i], ranks[i].stream);
    if (run.api)
      run.api->close(run.devices[i]);
  }
}

int carry_run(int argc, char **argv, uint32_t count, const struct weft_ep_options *options,
              void (*body)(struct carry *)) {
  struct carry ranks[RANKS] = {0};
  pthread_t threads[RANKS];
  weft_store_t *store;
  char why[DEVICE_WHY] = "";
  int devices = 0;
  bool cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
  if (cuda && (device_load(&run.api) != 0 || run.api->count(&devices, why) != 0 || devices == 0)) {
    printf("skipped: no GPU here\n");
    return SKIPPED;
  }
  run.body = body;
  pthread_barrier_init(&run.meeting, NULL, count);
  carry_must(weft_store_open_local(&store), "store");
  for (uint32_t i = 0; i < count; i++) {
    ranks[i].rank = (int32_t)i;
    ranks[i].options = *options;
    ranks[i].options.store = store;
    ranks[i].options.rank = (int32_t)i;
  }
  if (cuda)
    share_devices(ranks, count, devices);
  for (uint32_t i = 0; i < count; i++)
    carry_is(pthread_create(&threads[i], NULL, run_rank, &ranks[i]) == 0, "there is a thread");
  for (uint32_t i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  weft_store_close(store);
  free_all(ranks, count);
  pthread_barrier_destroy(&run.meeting);
  return 0;
}
