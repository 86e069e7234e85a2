// The NICs of --device_list, which the transports read from the environment.
#include "cli/bench/devices.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text/text.h"

static const char *const folders[] = {"/sys/class/infiniband", "/sys/class/net"};

static bool is_one_of(const char *folder, const char *name, size_t size) {
  struct text path = {0};
  text_add(&path, "%s/%.*s", folder, (int)size, name);
  bool there = path.data && !memchr(name, '/', size) && access(path.data, F_OK) == 0;
  text_free(&path);
  return there;
}

static int refuse(const char *name, size_t size) {
  struct text all = {0};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    DIR *folder = opendir(folders[i]);
    for (const struct dirent *one; folder && (one = readdir(folder));)
      if (one->d_name[0] != '.')
        text_add(&all, "%s%s", all.size ? ", " : "", one->d_name);
    if (folder)
      closedir(folder);
  }
  int err = fail(WEFT_ERR_INVALID, "--device_list: this host has no \"%.*s\"; it has %.600s", (int)size, name,
                 all.data ? all.data : "no network device at all");
  text_free(&all);
  return err;
}

// UCX wants the port of an InfiniBand device with it.
static void add_for_ucx(struct text *ucx, const char *name, size_t size, bool port, bool infiniband) {
  text_add(ucx, "%s%.*s%s", ucx->size ? "," : "", (int)size, name, infiniband && !port ? ":1" : "");
}

int cli_bench_devices_choose(const char *list) {
  struct text ucx = {0}, plain = {0};
  int err = 0;
  if (strcmp(list, "all") == 0)
    return 0;
  for (const char *at = list; !err; at++) {
    size_t whole = strcspn(at, ","), size = 0;
    while (size < whole && at[size] != ':') // the port
      size++;
    bool infiniband = size > 0 && is_one_of(folders[0], at, size);
    if (size == 0 || (!infiniband && !is_one_of(folders[1], at, size)))
      err = refuse(at, size);
    add_for_ucx(&ucx, at, whole, size < whole, infiniband);
    text_add(&plain, "%s%.*s", plain.size ? "," : "", (int)size, at);
    at += whole;
    if (!*at)
      break;
  }
  if (!err && (ucx.failed || plain.failed))
    err = fail(WEFT_ERR_NOMEM, "no memory for --device_list");
  if (!err && (setenv("WEFT_NICS", plain.data, 1) != 0 || setenv("WEFT_OFI_NICS", plain.data, 1) != 0 ||
               setenv("UCX_NET_DEVICES", ucx.data, 1) != 0))
    err = fail_errno(errno, "cannot pass on --device_list");
  text_free(&ucx);
  text_free(&plain);
  return err;
}
