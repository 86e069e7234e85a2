// Counts sockets, descriptors and mappings of this process, and keys of the group in the store.
#include "ep/view/support/held_resources.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "ep/support/rank.h"

enum { LINE = 512, LEASES_MS = 40000, SETTLE_MS = 5000 };

static void note_descriptor(struct held_resources *holdings, int fd) {
  char path[64], target[LINE];
  int domain = -1;
  socklen_t size = sizeof domain;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(path, target, sizeof target - 1);
  target[length > 0 ? length : 0] = '\0';
  holdings->descriptors += strncmp(target, "/memfd:", 7) == 0;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX)
    holdings->sockets++;
}

struct held_resources held_resources_now(void) {
  struct held_resources holdings = {0};
  DIR *folder = opendir("/proc/self/fd");
  for (struct dirent *entry; folder && (entry = readdir(folder));)
    if (entry->d_name[0] != '.')
      note_descriptor(&holdings, atoi(entry->d_name));
  if (folder)
    closedir(folder);
  char path[64];
  // qemu-user makes up /proc/self/maps, but not this file.
  snprintf(path, sizeof path, "/proc/self/task/%d/maps", (int)getpid());
  FILE *maps = fopen(path, "re");
  char line[LINE];
  while (maps && fgets(line, sizeof line, maps))
    holdings.mappings += strstr(line, "/memfd:") != NULL;
  if (maps)
    fclose(maps);
  return holdings;
}

struct held_resources held_resources_settled(void) {
  uint64_t deadline = clock_deadline_ms(getenv("WEFT_TEST_HOSTS") ? 0 : SETTLE_MS); // between hosts no test compares
  struct held_resources holdings = held_resources_now();
  for (; holdings.descriptors > 1 && !clock_passed(deadline); holdings = held_resources_now())
    poll(NULL, 0, 1);
  return holdings;
}

void held_resources_less_peers(struct held_resources *holdings, uint32_t count) {
  holdings->sockets -= (int)count;
  holdings->mappings -= 3 * (int)count; // a window each way, and the peer's doorbell
}

// Between hosts the resources of a link belong to its transport; the test churn counts all resources of a process.
bool held_resources_equal(const struct held_resources *due) {
  if (getenv("WEFT_TEST_HOSTS"))
    return true;
  struct held_resources now = held_resources_now();
  return now.sockets == due->sockets && now.descriptors == due->descriptors && now.mappings == due->mappings;
}

const char *held_resources_difference(const struct held_resources *due) {
  static char text[160];
  struct held_resources now = held_resources_now();
  snprintf(text, sizeof text, "%d local sockets, %d memory descriptors, %d mappings; should be %d, %d, %d", now.sockets,
           now.descriptors, now.mappings, due->sockets, due->descriptors, due->mappings);
  return text;
}

void held_resources_assert_no_listener(const char *name) {
  FILE *sockets = fopen("/proc/net/unix", "re");
  assert_non_null(sockets);
  char line[LINE];
  while (*name && fgets(line, sizeof line, sockets))
    if (strstr(line, name))
      fail_msg("somebody still listens on %s: %s", name, line);
  fclose(sockets);
}

// Counts the group's keys in the store. `print`: prints them too.
static size_t count_keys(weft_store_t *store, bool print) {
  struct weft_store_list *list = NULL;
  assert_int_equal(weft_store_range(store, RANK_PREFIX, true, 0, &list), 0);
  size_t count = list->count;
  for (size_t i = 0; print && i < count; i++)
    print_error("left behind: %s\n", list->kvs[i]->key);
  weft_store_list_free(list);
  return count;
}

void held_resources_assert_no_keys(const char *url) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store;
  options.endpoints = url;
  assert_int_equal(weft_store_open(&store, &options), 0);
  uint64_t deadline = clock_deadline_ms(LEASES_MS);
  while (count_keys(store, clock_passed(deadline)) > 0 && !clock_passed(deadline))
    poll(NULL, 0, 10);
  assert_int_equal(count_keys(store, false), 0);
  weft_store_close(store);
}
