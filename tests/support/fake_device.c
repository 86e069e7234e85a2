// The fake plug-in, which needs no GPU (device/device.h): devices, memory, windows, streams, and the table. Memory is
// host memory, windows are memfds, and a thread for each device runs its launches one after the other.
#include "support/fake_device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <weft/err.h>

#include "base/time/clock.h"
#include "cuda/kernels/layout.h"
#include "cuda/relay/relay.h"
#include "support/fake_copies.h"

enum { DEVICES = 2, NAP_NS = 20000 };

int fake_say(char *why, int rc, const char *what) {
  snprintf(why, DEVICE_WHY, "%s", what);
  return rc;
}

void fake_nap(void) {
  const struct timespec time = {.tv_nsec = NAP_NS};
  nanosleep(&time, NULL);
}

// --- devices, memory, windows, streams ---

// FAKE_PCI: the devices' addresses, separated by commas; without it there are two devices.
static int fake_count(int *count, char *why) {
  (void)why;
  const char *list = getenv("FAKE_PCI");
  *count = list ? 1 : DEVICES;
  for (; list && *list; list++)
    *count += *list == ',';
  return 0;
}

static void find_address(int index, char *out, size_t size) {
  const char *list = getenv("FAKE_PCI");
  for (; list && index > 0; index--)
    list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL;
  if (list)
    snprintf(out, size, "%.*s", (int)strcspn(list, ","), list);
}

static int fake_describe(int index, struct device_info *info, char *why) {
  (void)why;
  *info = (struct device_info){.name = "a fake", .uuid = {(uint8_t)(index + 1)}, .processors = 132, .windows = true};
  find_address(index, info->pci, sizeof info->pci);
  return 0;
}

static int fake_check_peer(int index, int peer, char *why) {
  if (getenv("FAKE_APART"))
    return fake_say(why, WEFT_ERR_UNSUPPORTED, "the fakes are apart");
  (void)index, (void)peer;
  return 0;
}

static void *run(void *arg);

static int fake_open(int index, struct device **out, char *why) {
  struct device *device = calloc(1, sizeof *device);
  if (!device)
    return fake_say(why, WEFT_ERR_NOMEM, "no memory");
  device->index = index;
  pthread_mutex_init(&device->lock, NULL);
  pthread_cond_init(&device->changed, NULL);
  if (pthread_create(&device->thread, NULL, run, device) != 0)
    return fake_say(why, WEFT_ERR_SYSTEM, "no thread");
  *out = device;
  return 0;
}

void fake_launch(struct device *device, const struct fake_launch *launch) {
  pthread_mutex_lock(&device->lock);
  while (device->put - device->done == FAKE_QUEUE)
    pthread_cond_wait(&device->changed, &device->lock);
  device->queue[device->put++ % FAKE_QUEUE] = *launch;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->lock);
}

static void fake_close(struct device *device) {
  fake_launch(device, &(struct fake_launch){.kernel = NULL});
  pthread_join(device->thread, NULL);
  pthread_cond_destroy(&device->changed);
  pthread_mutex_destroy(&device->lock);
  free(device);
}

static int fake_allocate(struct device *device, size_t size, void **memory, char *why) {
  (void)device, (void)why;
  *memory = calloc(1, size);
  return 0;
}

static void fake_release(struct device *device, void *memory) {
  (void)device;
  free(memory);
}

static int fake_copy(struct device *device, void *to, const void *from, size_t size, void *stream, bool wait,
                     char *why) {
  (void)device, (void)stream, (void)wait, (void)why;
  memcpy(fake_reach(to), fake_reach(from), size);
  return 0;
}

// With FAKE_HIDDEN set the host cannot touch windows, as it cannot touch GPU memory: a program that tries dies. Copies
// reach windows by a second mapping.
static struct hidden {
  char *memory, *bytes;
  size_t size;
} hidden[64];
static pthread_mutex_t hidden_lock = PTHREAD_MUTEX_INITIALIZER;

void *fake_reach(const void *memory) {
  const char *at = memory;
  pthread_mutex_lock(&hidden_lock);
  for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
    if (hidden[i].memory && at >= hidden[i].memory && at < hidden[i].memory + hidden[i].size)
      at = hidden[i].bytes + (at - hidden[i].memory);
  pthread_mutex_unlock(&hidden_lock);
  return (void *)(uintptr_t)at;
}

static int hide(struct device_window *window, int fd, char *why) {
  void *bytes = mmap(NULL, window->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  size_t i = 0;
  pthread_mutex_lock(&hidden_lock);
  while (i < sizeof hidden / sizeof *hidden && hidden[i].memory)
    i++;
  bool made = bytes != MAP_FAILED && i < sizeof hidden / sizeof *hidden;
  if (made)
    hidden[i] = (struct hidden){window->memory, bytes, window->size};
  pthread_mutex_unlock(&hidden_lock);
  if (!made)
    return fake_say(why, WEFT_ERR_LIMIT, "too many windows of the fake");
  mprotect(window->memory, window->size, PROT_NONE);
  return 0;
}

static void show(const void *memory) {
  pthread_mutex_lock(&hidden_lock);
  for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
    if (!hidden[i].memory || hidden[i].memory != memory)
      continue;
    munmap(hidden[i].bytes, hidden[i].size);
    hidden[i] = (struct hidden){NULL, NULL, 0};
  }
  pthread_mutex_unlock(&hidden_lock);
}

static int map(size_t size, int fd, struct device_window *window, char *why) {
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return fake_say(why, WEFT_ERR_SYSTEM, strerror(errno));
  *window = (struct device_window){.memory = memory, .size = size};
  return getenv("FAKE_HIDDEN") ? hide(window, fd, why) : 0;
}

static int fake_window_create(struct device *device, size_t size, struct device_window *window, int *fd, char *why) {
  char name[32];
  if (getenv("FAKE_FULL"))
    return fake_say(why, WEFT_ERR_NOMEM, "the fake has no memory");
  snprintf(name, sizeof name, "fake-device-%d", device->index); // fake_owner() recognises the name
  int made = memfd_create(name, MFD_CLOEXEC);
  if (made < 0 || ftruncate(made, (off_t)size) != 0)
    return fake_say(why, WEFT_ERR_SYSTEM, strerror(errno));
  *fd = made;
  return map(size, made, window, why);
}

int fake_window_map(struct device *device, size_t size, int fd, struct device_window *window, char *why) {
  (void)device;
  return map(size, fd, window, why);
}

// FAKE_FABRIC: windows have names, which contain the process, its descriptor, and the file that this is: later it may
// be another one. "mute": no process can map one; "once": only the first process that tries can.
static int fake_fabric_create(struct device *device, size_t size, struct device_window *window, uint8_t *name,
                              char *why) {
  int fd = -1;
  if (!getenv("FAKE_FABRIC"))
    return fake_say(why, WEFT_ERR_UNSUPPORTED, "the fakes have no fabric");
  int rc = fake_window_create(device, size, window, &fd, why);
  if (rc != 0)
    return rc;
  struct stat file;
  window->handle = (uint64_t)fd + 1;
  memset(name, 0, DEVICE_NAME);
  if (fstat(fd, &file) != 0)
    return fake_say(why, WEFT_ERR_SYSTEM, "fstat");
  snprintf((char *)name, DEVICE_NAME, "/proc/%d/fd/%d %llu", (int)getpid(), fd, (unsigned long long)file.st_ino);
  return 0;
}

static int fake_fabric_map(struct device *device, size_t size, const uint8_t *name, struct device_window *window,
                           char *why) {
  static _Atomic int mapped;
  const char *fabric = getenv("FAKE_FABRIC");
  if (!fabric || strcmp(fabric, "mute") == 0 || (strcmp(fabric, "once") == 0 && atomic_fetch_add(&mapped, 1) > 0))
    return fake_say(why, WEFT_ERR_UNSUPPORTED, "the fabric does not reach there");
  char path[DEVICE_NAME];
  unsigned long long inode;
  if (sscanf((const char *)name, "%63s %llu", path, &inode) != 2)
    return fake_say(why, WEFT_ERR_UNSUPPORTED, "no window has such a name");
  struct stat file;
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK), rc = WEFT_ERR_UNSUPPORTED;
  if (fd < 0 || fstat(fd, &file) != 0 || file.st_ino != inode)
    fake_say(why, rc, "there is no window of that name");
  else
    rc = fake_window_map(device, size, fd, window, why);
  if (fd >= 0)
    close(fd);
  return rc;
}

void fake_window_release(struct device *device, struct device_window *window) {
  (void)device;
  show(window->memory);
  if (window->handle)
    close((int)window->handle - 1);
  munmap(window->memory, window->size);
  *window = (struct device_window){0};
}

// With FAKE_PRIVATE set to the device's index, or to "all", no other process can map its windows in host memory.
static bool is_private(const struct device *device) {
  const char *private = getenv("FAKE_PRIVATE");
  return private && (strcmp(private, "all") == 0 || atoi(private) == device->index);
}

// Writes an empty area into a file. ThreadSanitizer would keep notes about each byte that this process stores into a
// mapping of it, and these notes would take most of the time of a test that makes many links.
static bool write_area(int file, size_t size) {
  char part[1 << 14];
  bool good = true;
  cuda_area_init(part, sizeof part);
  for (size_t at = 0; at < size && good; at += sizeof part) {
    size_t count = size - at < sizeof part ? size - at : sizeof part;
    good = pwrite(file, part, count, (off_t)at) == (ssize_t)count;
    if (at == 0)
      memset(part, 0xFF, sizeof part); // only the head of an area differs
  }
  return good;
}

static int fake_host_window_create(struct device *device, size_t size, struct device_window *window, void **host,
                                   int *fd, char *why) {
  int made = memfd_create("fake-host-window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0 || ftruncate(made, (off_t)size) != 0 ||
      fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 || !write_area(made, size))
    return fake_say(why, WEFT_ERR_SYSTEM, strerror(errno));
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
  if (memory == MAP_FAILED)
    return fake_say(why, WEFT_ERR_NOMEM, "no memory");
  bool shown = fd && !is_private(device);
  if (!shown)
    close(made);
  *window = (struct device_window){.memory = memory, .size = size, .handle = shown ? (uint64_t)made + 1 : 0};
  *host = memory;
  if (fd)
    *fd = shown ? made : -1;
  return 0;
}

static void fake_host_window_release(struct device *device, struct device_window *window, void *host) {
  (void)device;
  if (window->handle)
    close((int)window->handle - 1);
  munmap(host, window->size);
  *window = (struct device_window){0};
}

int fake_stream_wait(struct device *device, void *stream, uint32_t timeout_ms, char *why) {
  (void)stream;
  uint64_t deadline_ns = clock_deadline_ms(timeout_ms);
  for (;;) {
    pthread_mutex_lock(&device->lock);
    bool done = device->done == device->put;
    pthread_mutex_unlock(&device->lock);
    if (done)
      return 0;
    if (clock_passed(deadline_ns))
      return fake_say(why, WEFT_ERR_TIMEOUT, "not done");
    fake_nap();
  }
}

static int fake_stream_device(void *stream, int *index, char *why) {
  (void)stream, (void)why;
  const char *current = getenv("FAKE_CURRENT");
  *index = current ? atoi(current) : 0;
  return 0;
}

static int fake_stream_capture(void *stream, uint64_t *capture, char *why) {
  (void)why;
  *capture = stream == (void *)1 ? UINT64_MAX : fake_capture_of(stream);
  return 0;
}

static _Thread_local const struct device *current;

static int fake_with(struct device *device, void (*function)(void *arg), void *arg, char *why) {
  (void)why;
  const struct device *before = current;
  current = device;
  function(arg);
  current = before;
  return 0;
}

// For the fake cuFile: whether the calling thread is in with().
__attribute__((visibility("default"))) bool fake_device_is_current(void);
bool fake_device_is_current(void) {
  return current != NULL;
}

static void *run(void *arg) {
  struct device *device = arg;
  for (bool go_on = true; go_on;) {
    pthread_mutex_lock(&device->lock);
    while (device->put == device->done)
      pthread_cond_wait(&device->changed, &device->lock);
    struct fake_launch launch = device->queue[device->done % FAKE_QUEUE];
    pthread_mutex_unlock(&device->lock);
    go_on = launch.kernel;
    if (go_on)
      launch.kernel(&launch);
    pthread_mutex_lock(&device->lock);
    device->done++;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
  }
  return NULL;
}

static const struct device_api api = {
    .abi = DEVICE_ABI,
    .count = fake_count,
    .describe = fake_describe,
    .check_peer = fake_check_peer,
    .open = fake_open,
    .close = fake_close,
    .allocate = fake_allocate,
    .release = fake_release,
    .copy = fake_copy,
    .fill = fake_fill,
    .window_create = fake_window_create,
    .window_map = fake_window_map,
    .window_release = fake_window_release,
    .fabric_create = fake_fabric_create,
    .fabric_map = fake_fabric_map,
    .stream_wait = fake_stream_wait,
    .stream_device = fake_stream_device,
    .stream_capture = fake_stream_capture,
    .ep_area_bytes = fake_area_bytes,
    .ep_open = fake_ep_open,
    .ep_close = fake_ep_close,
    .ep_memory = fake_ep_memory,
    .ep_report = fake_ep_report,
    .ep_progress = fake_ep_progress,
    .ep_publish = fake_ep_publish,
    .ep_control = fake_ep_control,
    .ep_seat = fake_ep_seat,
    .ep_zero_copy = fake_ep_zero_copy,
    .ep_begin = fake_ep_begin,
    .ep_wake_links = fake_ep_wake_links,
    .ep_await_begin = fake_ep_await_begin,
    .ep_dispatch = fake_ep_dispatch,
    .ep_combine = fake_ep_combine,
    .ep_read_masks = fake_ep_read_masks,
    .ep_finish = fake_ep_finish,
    .ep_record = fake_ep_record,
    .ep_missing = fake_ep_missing,
    .flow_clear = fake_flow_clear,
    .flow_dispatch = fake_flow_dispatch,
    .flow_combine = fake_flow_combine,
    .route_create = fake_route_create,
    .route_free = fake_route_free,
    .route_plan = fake_route_plan,
    .route_arrays = fake_route_arrays,
    .route_selections = fake_route_selections,
    .route_compare = fake_route_compare,
    .route_difference = fake_route_difference,
    .route_counts = fake_route_counts,
    .host_window_create = fake_host_window_create,
    .host_window_release = fake_host_window_release,
    .relay_open = cuda_relay_open,
    .relay_close = cuda_relay_close,
    .relay_collect = cuda_relay_collect,
    .relay_rings = cuda_relay_rings,
    .relay_landed = cuda_relay_landed,
    .relay_deliver = cuda_relay_deliver,
    .owner = fake_owner,
    .stream_open = fake_stream_open,
    .stream_close = fake_stream_close,
    .event_open = fake_mark_open,
    .event_close = fake_mark_close,
    .event_record = fake_mark_set,
    .event_elapsed = fake_mark_elapsed,
    .graph_begin = fake_graph_begin,
    .graph_end = fake_graph_end,
    .graph_launch = fake_graph_launch,
    .graph_close = fake_graph_close,
    .share = fake_share,
    .share_open = fake_share_open,
    .share_close = fake_share_close,
    .pin = fake_pin,
    .unpin = fake_unpin,
    .copies_open = fake_copies_open,
    .copies_run = fake_copies_run,
    .copies_passed = fake_copies_passed,
    .copies_close = fake_copies_close,
    .with = fake_with,
};

__attribute__((visibility("default"))) device_api_fn weft_cuda_api;
const struct device_api *weft_cuda_api(void) {
  return &api;
}
