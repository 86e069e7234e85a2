// The choice of GPUs, and the comparison of the two ends by the identity of their GPUs.
#include "p2p/gpus.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/process.h"
#include "base/signal/stop.h"
#include "base/time/clock.h"
#include "p2p/session/session.h"

enum { HEX = 2 * 16 + 1, DRIVER_MS = 60000 }; // a driver that wakes up many GPUs takes seconds

// --- the choice ---

struct answer {
  int rc;
  uint32_t target;
  char text[FAIL_DETAIL_SIZE];
};

static int check_index(uint32_t index, int count, const char *option) {
  if (index < (uint32_t)count)
    return 0;
  return fail(WEFT_ERR_UNSUPPORTED, "%s %u: this host has %d GPU%s that this process may use, counted from 0", option,
              index, count, count == 1 ? "" : "s");
}

// Another GPU, if it and this one reach each other's memory; else the same GPU.
static uint32_t another(const struct device_api *api, uint32_t own, int count) {
  char why[DEVICE_WHY];
  for (int i = 1; i < count; i++) {
    int other = (int)((own + (uint32_t)i) % (uint32_t)count);
    if (api->check_peer((int)own, other, why) == 0 && api->check_peer(other, (int)own, why) == 0)
      return (uint32_t)other;
  }
  return own;
}

static int choose(const struct p2p_config *config, uint32_t *target) {
  const struct device_api *api;
  char why[DEVICE_WHY] = "";
  int count = 0;
  bool named = config->target_gpu != P2P_GPU_OTHER;
  int rc = device_load(&api);
  if (rc == 0 && (rc = api->count(&count, why)) != 0)
    rc = device_fail(rc, "--memory cuda", why);
  if (rc == 0)
    rc = check_index(config->gpu, count, "--gpu-id");
  if (rc == 0 && named)
    rc = check_index(config->target_gpu, count, "--target-gpu-id");
  if (rc == 0)
    *target = named ? config->target_gpu : another(api, config->gpu, count);
  return rc;
}

static void answer_to(int out, const struct p2p_config *config) {
  struct answer answer = {0};
  answer.rc = choose(config, &answer.target);
  snprintf(answer.text, sizeof answer.text, "%s", weft_last_error());
  _exit(write(out, &answer, sizeof answer) != sizeof answer);
}

// Reads all of the answer, or less if the deadline passes or the process dies.
static size_t read_answer(int in, struct answer *answer) {
  uint64_t deadline_ns = clock_deadline_ms(DRIVER_MS);
  size_t used = 0;
  while (used < sizeof *answer) {
    struct pollfd ready = {.fd = in, .events = POLLIN};
    int polled = poll(&ready, 1, clock_left_ms(deadline_ns));
    if (polled == 0 || (polled < 0 && errno != EINTR))
      break;
    ssize_t got = polled > 0 ? read(in, (char *)answer + used, sizeof *answer - used) : -1;
    if (got == 0)
      break;
    used += got > 0 ? (size_t)got : 0;
  }
  return used;
}

int p2p_gpus_choose(const struct p2p_config *config, uint32_t *target) {
  struct answer answer = {0};
  int ends[2];
  if (pipe(ends) != 0)
    return fail_errno(errno, "cannot make a pipe");
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0)
    answer_to(ends[1], config);
  close(ends[1]);
  stop_at_once(true);
  size_t used = pid > 0 ? read_answer(ends[0], &answer) : 0;
  stop_at_once(false);
  close(ends[0]);
  if (pid < 0)
    return fail_errno(errno, "cannot start a process that asks for GPUs");
  process_end(pid); // it has answered, or will not answer
  if (used < sizeof answer)
    return fail(WEFT_ERR_UNSUPPORTED,
                "the CUDA driver did not list the GPUs within %d s, or crashed: see 'weft doctor'", DRIVER_MS / 1000);
  if (answer.rc != 0)
    return fail(answer.rc, "%s", answer.text);
  *target = answer.target;
  return 0;
}

// --- the comparison ---

static void name_memory(const struct p2p_buffer *buffer, char *out, size_t size) {
  const char *name = p2p_memory_names[buffer->memory];
  if (buffer->memory == P2P_MEMORY_CUDA)
    snprintf(out, size, "%s:%u", name, buffer->gpu);
  else
    snprintf(out, size, "%s", name);
}

static void name_gpu(const struct p2p_buffer *buffer, char out[HEX]) {
  struct device_info info = {0};
  char why[DEVICE_WHY];
  *out = '\0';
  if (!buffer->device || buffer->api->describe((int)buffer->gpu, &info, why) != 0)
    return;
  for (size_t i = 0; i < sizeof info.uuid; i++)
    snprintf(out + 2 * i, 3, "%02x", info.uuid[i]);
}

void p2p_gpus_describe(const struct p2p_buffer *buffer, json_t *ready) {
  char memory[32], gpu[HEX];
  name_memory(buffer, memory, sizeof memory);
  name_gpu(buffer, gpu);
  json_object_set_new(ready, "memory", json_string(memory));
  json_object_set_new(ready, "gpu", json_string(gpu));
}

void p2p_gpus_compare(const struct p2p_buffer *buffer, const json_t *ready, struct p2p_ends *ends) {
  char gpu[HEX];
  const char *there = p2p_text(ready, "memory");
  name_gpu(buffer, gpu);
  name_memory(buffer, ends->here, sizeof ends->here);
  size_t size = 0;
  for (; size < sizeof ends->there - 1 && (isalnum((unsigned char)there[size]) || there[size] == ':'); size++)
    ends->there[size] = there[size];
  snprintf(ends->there + size, sizeof ends->there - size, "%s", size > 0 ? "" : "unknown");
  ends->same_gpu = *gpu && strcmp(gpu, p2p_text(ready, "gpu")) == 0;
}
