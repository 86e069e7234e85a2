// Loads the plug-in from several threads at once and prints the result: "OK", or the error code and the message. With
// the argument "count" it also asks for devices. It is built as a program and as a library, since both may contain the
// loader.
#include "base/fail.h"
#include "device/device.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4 };

static const struct device_api *apis[THREADS];

static void *load(void *arg) {
  const struct device_api **api = arg;
  if (device_load(api) != 0)
    *api = NULL;
  return NULL;
}

__attribute__((visibility("default"))) int try_load(void);
int try_load(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, load, &apis[i]) != 0)
      return 2;
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  const struct device_api *api = NULL;
  int rc = device_load(&api);
  for (int i = 0; i < THREADS; i++)
    if (apis[i] != api) {
      printf("thread %d got another table\n", i);
      return 2;
    }
  printf("%s%s%s\n", weft_err_name(rc), rc ? " " : "", rc ? weft_last_error() : "");
  fflush(stdout);
  return rc ? 1 : 0;
}

int main(int argc, char **argv) {
  int status = try_load();
  if (status == 0 && argc > 1 && strcmp(argv[1], "count") == 0) {
    char why[DEVICE_WHY] = "";
    int count = 0;
    struct device *device = NULL;
    int rc = apis[0]->count(&count, why);
    printf("count: %s %d %s\n", weft_err_name(rc), count, why);
    why[0] = '\0';
    rc = apis[0]->open(0, &device, why);
    printf("open: %s %s\n", weft_err_name(rc), why);
    apis[0]->close(device);
  }
  return status;
}
