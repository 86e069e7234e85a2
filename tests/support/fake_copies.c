// Copies between processes, streams and marks of the fake plug-in. Memory is host memory, and a copy is complete when
// it is launched.
#include "support/fake_copies.h"
#include "base/time/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/err.h>

#include "support/fake_device.h"

// Windows are recognised by the name of their mapping, which ends with the number of the device.
int fake_owner(const void *memory, int *index, char *why) {
  char line[512];
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps)
    return fake_say(why, WEFT_ERR_SYSTEM, strerror(errno));
  *index = -1;
  while (fgets(line, sizeof line, maps)) {
    uintptr_t begin, end;
    const char *name = strstr(line, "memfd:fake-device-");
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 && (uintptr_t)memory >= begin &&
        (uintptr_t)memory < end && name)
      *index = atoi(name + strlen("memfd:fake-device-"));
  }
  fclose(maps);
  return 0;
}

int fake_share(const void *memory, uint64_t size, bool window, struct device_share *share, char *why) {
  if (!window)
    return fake_say(why, WEFT_ERR_UNSUPPORTED, "others cannot map what is no window of the fake");
  int index = 0;
  fake_owner(memory, &index, why);
  *share = (struct device_share){
      .process = (uint64_t)getpid(), .address = (uintptr_t)memory, .size = size, .uuid = {(uint8_t)(index + 1)}};
  return 0;
}

int fake_share_open(struct device *device, const struct device_share *share, int fd, void **memory, char *why) {
  if (share->process == (uint64_t)getpid()) {
    *memory = (void *)(uintptr_t)share->address;
    return 0;
  }
  struct device_window window = {0};
  int rc = fake_window_map(device, share->size, fd, &window, why);
  if (rc == 0)
    *memory = window.memory;
  return rc;
}

void fake_share_close(struct device *device, const struct device_share *share, void *memory) {
  if (share->process == (uint64_t)getpid())
    return;
  struct device_window window = {.memory = memory, .size = share->size};
  fake_window_release(device, &window);
}

int fake_pin(void *memory, uint64_t size, char *why) {
  (void)memory, (void)size, (void)why;
  return 0;
}

void fake_unpin(void *memory, uint64_t size) {
  (void)memory, (void)size;
}

struct device_copies {
  uint32_t count;
  int looks;
  uint64_t run_ns, until_ns; // how long a run takes at least; when the newest one ends
  struct device_copy copy[];
};

int fake_copies_open(struct device *device, const struct device_copy *copies, uint32_t count,
                     struct device_copies **opened, char *why) {
  (void)device;
  struct device_copies *made = malloc(sizeof *made + count * sizeof *copies);
  if (!made)
    return fake_say(why, WEFT_ERR_NOMEM, "no memory");
  const char *ms = getenv("FAKE_COPIES_MS");
  made->count = count;
  made->run_ns = ms ? strtoull(ms, NULL, 10) * 1000000 : 0;
  memcpy(made->copy, copies, count * sizeof *copies);
  *opened = made;
  return 0;
}

// A run counts as complete after some checks, so that requests are in flight for a while, and at the earliest after
// FAKE_COPIES_MS.
enum { LOOKS = 3 };

int fake_copies_run(struct device_copies *copies, void *stream, char *why) {
  (void)stream, (void)why;
  copies->looks = LOOKS;
  copies->until_ns = clock_ns() + copies->run_ns;
  for (uint32_t i = 0; i < copies->count; i++)
    memcpy(fake_reach(copies->copy[i].to), fake_reach(copies->copy[i].from), copies->copy[i].size);
  return 0;
}

int fake_copies_passed(struct device_copies *copies, bool *passed, char *why) {
  (void)why;
  *passed = --copies->looks <= 0 && clock_ns() >= copies->until_ns;
  return 0;
}

void fake_copies_close(struct device_copies *copies) {
  free(copies);
}

int fake_mark_open(struct device *device, void **mark, char *why) {
  (void)device;
  *mark = calloc(1, sizeof(uint64_t));
  return *mark ? 0 : fake_say(why, WEFT_ERR_NOMEM, "no memory");
}

void fake_mark_close(struct device *device, void *mark) {
  (void)device;
  free(mark);
}

int fake_mark_set(struct device *device, void *mark, void *stream, char *why) {
  (void)device, (void)stream, (void)why;
  *(uint64_t *)mark = clock_ns(); // launches run at once
  return 0;
}

int fake_mark_elapsed(struct device *device, void *begin, void *end, uint64_t *ns, char *why) {
  (void)device, (void)why;
  *ns = *(uint64_t *)end - *(uint64_t *)begin;
  return 0;
}

int fake_stream_open(struct device *device, void **stream, char *why) {
  (void)why;
  *stream = device;
  return 0;
}

void fake_stream_close(struct device *device, void *stream) {
  (void)device, (void)stream;
}
