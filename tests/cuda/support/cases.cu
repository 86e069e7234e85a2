#include "cuda/support/cases.cuh"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
#include "device/device.h"
}

namespace {

enum { SKIPPED = 77, CASE_S = 90 };

// Whether the ranks, which are configured as on different hosts, should use NVLink, but this machine cannot do that.
bool lacks_nvlink(const struct device_api *api) {
  const char *way = getenv("WEFT_EP_TRANSPORT");
  struct device *device;
  struct device_window window;
  uint8_t name[DEVICE_NAME];
  char why[DEVICE_WHY] = "";
  if (!way || strcmp(way, "nvlink") != 0)
    return false;
  int rc = api->open(0, &device, why);
  if (rc != 0)
    return false;
  rc = api->fabric_create(device, 1, &window, name, why);
  if (rc == 0)
    api->window_release(device, &window);
  else if (rc == WEFT_ERR_UNSUPPORTED)
    printf("skipped: %s\n", why);
  api->close(device);
  return rc == WEFT_ERR_UNSUPPORTED; // the test reports other errors
}

int run(const test &test) {
  static world world;
  const struct device_api *api;
  alarm(CASE_S);
  // One queue for each stream: otherwise the work of a rank may be queued behind the work of a rank that waits for it.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  if (cudaGetDeviceCount(&world.devices) != cudaSuccess || world.devices == 0) {
    printf("skipped: no GPU here\n");
    return SKIPPED;
  }
  if (device_load(&api) != 0) {
    printf("skipped: %s\n", weft_last_error());
    return SKIPPED;
  }
  if (lacks_nvlink(api))
    return SKIPPED;
  if (weft_store_open_local(&world.store) != 0) {
    printf("  no store: %s\n", weft_last_error());
    return 1;
  }
  world.run(test.body);
  weft_store_close(world.store);
  return 0;
}

// Runs the case in a child process. This process does not use CUDA, which does not work after a fork.
int run_apart(const test &test) {
  int status = 0;
  printf("%s\n", test.name);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int code = run(test);
    fflush(stdout);
    _exit(code);
  }
  if (child < 0 || waitpid(child, &status, 0) != child)
    return 1;
  if (WIFEXITED(status))
    return WEXITSTATUS(status);
  printf("  ended by signal %d%s\n", WTERMSIG(status),
         WTERMSIG(status) == SIGALRM ? ": it had not come to its end by the deadline" : "");
  return 1;
}

} // namespace

int run_tests(const test *tests, size_t count, int argc, char **argv) {
  int ran = 0, failed = 0;
  for (size_t t = 0; t < count; t++) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; i++)
      wanted = wanted || strcmp(argv[i], tests[t].name) == 0;
    if (!wanted)
      continue;
    int code = run_apart(tests[t]);
    if (code == SKIPPED)
      return SKIPPED;
    ran++;
    failed += code != 0;
  }
  printf("%d cases, %d wrong\n", ran, failed);
  return ran == 0 || failed != 0;
}
