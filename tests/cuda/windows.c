// Windows of GPU memory between processes: written by another process, left behind by a killed one, refused, and made
// and released again and again; by descriptors, and by names if the machine supports them. The other process is this
// program again, on the next GPU if there is one. Exits 77 without a GPU. test_cuda_windows [write DEVICE | own DEVICE
// | write-named DEVICE | own-named DEVICE]: the other process, with descriptor 3.
#include "base/fail.h"
#include "cuda/kernels/layout.h"
#include "device/device.h"
#include "support/entries.h"
#include "support/wait.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, PASSED_ON = 3, SIZE = (4 << 20) + 128, BIG = 64 << 20, COPIES = 400, TIMES = 100 };

static const struct device_api *api;
static char why[DEVICE_WHY];
static int failures;

#define CHECK(condition, ...)                                                                                          \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);                                                           \
      printf(__VA_ARGS__);                                                                                             \
      printf("\n");                                                                                                    \
      failures++;                                                                                                      \
    }                                                                                                                  \
  } while (0)

// For what the rest of a test rests on.
static void must(int rc, const char *what) {
  if (rc == 0)
    return;
  printf("%s: %s: %s\n", what, weft_err_name(rc), why);
  exit(1);
}

static uint32_t pattern(size_t i, uint32_t seed) {
  return (uint32_t)(i * 2654435761u) ^ seed;
}

static uint32_t *numbers(size_t size, uint32_t seed) {
  uint32_t *made = malloc(size);
  for (size_t i = 0; made && i < size / 4; i++)
    made[i] = pattern(i, seed);
  return made;
}

// Whether the device still does what it is asked for.
static void check_usable(struct device *device, const char *after) {
  uint32_t *out = numbers(SIZE, 99), *in = calloc(1, SIZE);
  void *memory = NULL;
  int rc = api->allocate(device, SIZE, &memory, why);
  CHECK(rc == 0, "%s: %s", after, why);
  if (rc == 0) {
    CHECK(api->copy(device, memory, out, SIZE, NULL, true, why) == 0, "%s: %s", after, why);
    CHECK(api->copy(device, in, memory, SIZE, NULL, true, why) == 0, "%s: %s", after, why);
    CHECK(memcmp(in, out, SIZE) == 0, "%s: copies bring other bytes", after);
    api->release(device, memory);
  }
  free(in);
  free(out);
}

// --- the other process ---

// What descriptor 3 leads to: a window, or a process that tells a name.
static void map_passed(struct device *device, size_t size, bool named, int fd, struct device_window *window) {
  uint8_t name[DEVICE_NAME] = {0};
  if (named && read(fd, name, sizeof name) != (ssize_t)sizeof name)
    printf("no name came\n");
  must(named ? api->fabric_map(device, size, name, window, why) : api->window_map(device, size, fd, window, why),
       "a window of another process cannot be mapped");
}

static int write_there(struct device *device, bool named) {
  struct device_window window;
  map_passed(device, SIZE, named, PASSED_ON, &window);
  uint32_t *from = numbers(SIZE, 7);
  must(api->copy(device, window.memory, from, SIZE, NULL, true, why), "the other process cannot write the window");
  free(from);
  api->window_release(device, &window);
  return 0;
}

static void send_descriptor(int socket, int fd) {
  char byte = 1, room[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (sendmsg(socket, &message, 0) != 1)
    exit(1);
}

static void send_name(int socket, const uint8_t name[DEVICE_NAME]) {
  if (send(socket, name, DEVICE_NAME, MSG_NOSIGNAL) != DEVICE_NAME)
    exit(1);
}

static _Noreturn void own_until_killed(struct device *device, bool named) {
  struct device_window window;
  uint8_t name[DEVICE_NAME];
  int fd = -1;
  must(named ? api->fabric_create(device, BIG, &window, name, why) : api->window_create(device, BIG, &window, &fd, why),
       "the other process cannot make a window");
  if (named)
    send_name(PASSED_ON, name);
  else
    send_descriptor(PASSED_ON, fd);
  close(fd);
  for (;;)
    pause();
}

static int other_process(const char *what, int index) {
  struct device *device;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(120);
  must(api->open(index, &device, why), "the other process cannot open its device");
  bool named = strstr(what, "-named");
  if (strncmp(what, "write", 5) == 0)
    return write_there(device, named);
  own_until_killed(device, named);
}

// --- this one ---

static pid_t start(const char *what, int index, int fd) {
  char number[16];
  snprintf(number, sizeof number, "%d", index);
  pid_t pid = fork();
  if (pid == 0) {
    if (fd == PASSED_ON ? fcntl(fd, F_SETFD, 0) == 0 : dup2(fd, PASSED_ON) == PASSED_ON)
      execl("/proc/self/exe", "test_cuda_windows", what, number, (char *)NULL);
    _exit(127);
  }
  return pid;
}

struct ended {
  pid_t pid;
  int status;
};

static bool has_ended(void *arg) {
  struct ended *ended = arg;
  return waitpid(ended->pid, &ended->status, WNOHANG) == ended->pid;
}

static int await_end(pid_t pid) {
  struct ended ended = {.pid = pid};
  if (pid > 0 && support_wait(has_ended, &ended, SUPPORT_DEADLINE_MS))
    return ended.status;
  printf("the other process (%d) does not end\n", (int)pid);
  if (pid > 0) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
  }
  exit(1);
}

// The other process writes to the window of `fd`, which is closed.
static int written_by(int other, bool named, int fd) {
  int status = await_end(start(named ? "write-named" : "write", other, fd));
  close(fd);
  return status;
}

static void another_process_writes(struct device *device, int other, bool named) {
  struct device_window window;
  uint8_t name[DEVICE_NAME];
  int fd, ends[2];
  uint32_t *in = malloc(SIZE);
  if (named) {
    must(api->fabric_create(device, SIZE, &window, name, why), "cannot make a window");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      exit(1);
    send_name(ends[0], name);
    fd = ends[1];
  } else {
    must(api->window_create(device, SIZE, &window, &fd, why), "cannot make a window");
  }
  CHECK(window.size >= SIZE, "%zu bytes", window.size);
  must(api->copy(device, in, window.memory, SIZE, NULL, true, why), "cannot read a window");
  size_t others = 0;
  for (size_t i = 0; i < SIZE / 4; i++)
    others += in[i] != (i * 4 < sizeof(struct cuda_area_head) ? 0 : CUDA_EMPTY);
  CHECK(others == 0, "%zu words of a new window are not as they should be: zeros, then empty", others);
  int status = written_by(other, named, fd);
  if (named)
    close(ends[0]);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process ended with %d", status);
  must(api->copy(device, in, window.memory, SIZE, NULL, true, why), "cannot read a window");
  for (size_t i = 0; i < SIZE / 4; i++)
    others += in[i] != pattern(i, 7);
  CHECK(others == 0, "%zu words are not those that the other process has written", others);
  printf("a process on device %d wrote %d bytes into a window of device 0%s\n", other, SIZE, named ? ", by name" : "");
  free(in);
  api->window_release(device, &window);
}

static int receive_descriptor(int socket) {
  char byte, room[CMSG_SPACE(sizeof(int))];
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct pollfd ready = {.fd = socket, .events = POLLIN};
  int fd = -1;
  if (poll(&ready, 1, SUPPORT_DEADLINE_MS) == 1 && recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

// What is seen when the owner of a window dies while we write to it: either way our own context must stay usable.
static void the_owner_is_killed(struct device *device, int other, bool named) {
  struct device_window window;
  void *from, *stream;
  int ends[2], rc = 0, done = 0;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    exit(1);
  pid_t pid = start(named ? "own-named" : "own", other, ends[1]);
  close(ends[1]);
  int fd = named ? dup(ends[0]) : receive_descriptor(ends[0]);
  if (fd < 0) {
    printf("the other process sent no window\n");
    kill(pid, SIGKILL);
    await_end(pid);
    exit(1);
  }
  map_passed(device, BIG, named, fd, &window);
  close(fd);
  must(api->allocate(device, BIG, &from, why), "no memory");
  must(api->stream_open(device, &stream, why), "no stream");
  for (; done < COPIES && rc == 0; done++) {
    rc = api->copy(device, window.memory, from, BIG, stream, false, why);
    if (done == COPIES / 4)
      kill(pid, SIGKILL); // some copies are in the stream, more follow
    if (done == COPIES / 2)
      await_end(pid);
  }
  if (rc == 0)
    rc = api->stream_wait(device, stream, SUPPORT_DEADLINE_MS, why);
  CHECK(rc != WEFT_ERR_TIMEOUT, "copies into the window of a dead process do not end: %s", why);
  printf("the owner of a window (device %d%s) was killed while it was written: %d of %d copies, then %s%s%s\n", other,
         named ? ", by name" : "", done, COPIES, rc == 0 ? "all were done" : weft_err_name(rc), rc == 0 ? "" : ": ",
         rc == 0 ? "" : why);
  if (rc == 0) {
    rc = api->copy(device, window.memory, from, BIG, stream, true, why);
    printf("a copy into it after that: %s%s%s\n", rc == 0 ? "done" : weft_err_name(rc), rc == 0 ? "" : ": ",
           rc == 0 ? "" : why);
  }
  check_usable(device, "after the death of a window's owner");
  api->stream_close(device, stream);
  api->release(device, from);
  api->window_release(device, &window);
  check_usable(device, "after the window of the dead is unmapped");
  close(ends[0]);
}

static void wrong_sizes_and_descriptors_are_refused(struct device *device) {
  struct device_info info;
  struct device_window window, none = {0};
  int fd, nothing = -1, pipes[2];
  must(api->describe(0, &info, why), "cannot describe the device");
  CHECK(api->window_create(device, 0, &none, &nothing, why) == WEFT_ERR_INVALID, "%s", why);
  CHECK(api->window_create(device, (size_t)info.memory_bytes * 2, &none, &nothing, why) == WEFT_ERR_INVALID, "%s", why);
  int rc = api->window_create(device, (size_t)info.memory_bytes, &none, &nothing, why);
  CHECK(rc == WEFT_ERR_NOMEM, "all of the device's memory: %s", why);
  printf("as large as the device: %s: %s\n", weft_err_name(rc), why);
  must(api->window_create(device, SIZE, &window, &fd, why), "cannot make a window");
  rc = api->window_map(device, (size_t)SIZE * 8, fd, &none, why);
  CHECK(rc == WEFT_ERR_PROTOCOL || rc == WEFT_ERR_UNSUPPORTED, "more than there is: %s", why);
  printf("mapped larger than it is: %s: %s\n", weft_err_name(rc), why);
  if (pipe(pipes) == 0) {
    rc = api->window_map(device, SIZE, pipes[0], &none, why);
    CHECK(rc == WEFT_ERR_PROTOCOL || rc == WEFT_ERR_UNSUPPORTED, "a pipe: %s", why);
    printf("a pipe for a window: %s: %s\n", weft_err_name(rc), why);
    close(pipes[0]);
    close(pipes[1]);
  }
  CHECK(none.memory == NULL && nothing == -1, "something was written in spite of a failure");
  close(fd);
  api->window_release(device, &window);
  check_usable(device, "after refused windows");
}

// Together they are larger than the device, so that what is not given back is missed.
static void nothing_is_left_behind(struct device *device) {
  struct device_info info;
  must(api->describe(0, &info, why), "cannot describe the device");
  size_t size = (size_t)info.memory_bytes / (TIMES - 10);
  int before = support_descriptors(), done = 0, rc = 0;
  for (; done < TIMES && rc == 0; done++) {
    struct device_window window = {0}, mapped = {0};
    int fd;
    rc = api->window_create(device, size, &window, &fd, why);
    if (rc != 0)
      break;
    rc = api->window_map(device, size, fd, &mapped, why);
    close(fd);
    api->window_release(device, &mapped);
    api->window_release(device, &window);
  }
  CHECK(done == TIMES, "after %d windows of %zu bytes: %s", done, size, why);
  CHECK(support_descriptors() == before, "%d descriptors, and %d before", support_descriptors(), before);
  printf("%d windows of %zu bytes made, mapped and released\n", done, size);
}

// Whether windows have names here; if not, says why.
static bool has_names(struct device *device) {
  struct device_window window;
  uint8_t name[DEVICE_NAME];
  int rc = api->fabric_create(device, SIZE, &window, name, why);
  if (rc == WEFT_ERR_UNSUPPORTED)
    printf("not tried, windows by name: %s\n", why);
  else
    must(rc, "cannot make a window with a name");
  if (rc == 0)
    api->window_release(device, &window);
  return rc == 0;
}

static void names_of_nothing_are_refused(struct device *device) {
  struct device_window window, none = {0};
  uint8_t name[DEVICE_NAME], wrong[DEVICE_NAME];
  must(api->fabric_create(device, SIZE, &window, name, why), "cannot make a window with a name");
  memset(wrong, 0x5A, sizeof wrong);
  int rc = api->fabric_map(device, SIZE, wrong, &none, why);
  CHECK(rc == WEFT_ERR_UNSUPPORTED, "a name that is none: %s", why);
  printf("a name that is none: %s: %s\n", weft_err_name(rc), why);
  rc = api->fabric_map(device, (size_t)SIZE * 8, name, &none, why);
  CHECK(rc == WEFT_ERR_UNSUPPORTED, "more than there is: %s", why);
  printf("mapped larger than it is, by name: %s: %s\n", weft_err_name(rc), why);
  CHECK(none.memory == NULL, "something was written in spite of a failure");
  api->window_release(device, &window);
  rc = api->fabric_map(device, SIZE, name, &none, why);
  printf("the name of a window that was released: %s%s%s\n", rc == 0 ? "mapped" : weft_err_name(rc),
         rc == 0 ? "" : ": ", rc == 0 ? "" : why);
  if (rc == 0)
    api->window_release(device, &none);
  check_usable(device, "after refused names");
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  int count;
  int rc = device_load(&api);
  if (rc == 0)
    rc = api->count(&count, why);
  else
    snprintf(why, sizeof why, "%s", weft_last_error());
  if (rc == WEFT_ERR_UNSUPPORTED) {
    printf("skipped: %s\n", why);
    return SKIPPED;
  }
  must(rc, "cannot count devices");
  if (argc == 3)
    return other_process(argv[1], atoi(argv[2]));
  struct device_info info;
  struct device *device;
  must(api->describe(0, &info, why), "cannot describe device 0");
  if (!info.windows) {
    printf("skipped: memory of %s cannot be shared by file descriptors\n", info.name);
    return SKIPPED;
  }
  int other = 1 % count;
  if (api->check_peer(0, other, why) != 0 || api->check_peer(other, 0, why) != 0) {
    printf("both processes on device 0: %s\n", why);
    other = 0;
  }
  must(api->open(0, &device, why), "cannot open device 0");
  wrong_sizes_and_descriptors_are_refused(device);
  another_process_writes(device, other, false);
  nothing_is_left_behind(device);
  the_owner_is_killed(device, other, false);
  if (other != 0)
    the_owner_is_killed(device, 0, false);
  if (has_names(device)) {
    names_of_nothing_are_refused(device);
    another_process_writes(device, other, true);
    the_owner_is_killed(device, other, true);
    if (other != 0)
      the_owner_is_killed(device, 0, true);
  }
  api->close(device);
  printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
