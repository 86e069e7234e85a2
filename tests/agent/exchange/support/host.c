// host NAME TRANSPORT STORE LEASE_S PATIENCE_MS: an agent on a test host, which publishes itself in the store. It reads
// a command from each line of its input, and answers with one line. hosts.py runs three of them.
//   fetch NAME   write NAME   read NAME   stream NAME   fill BYTE   check BYTE   notifications   events   state NAME
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum {
  BYTES = 1 << 20,
  WAIT_MS = 60000,
  TRANSFER_MS = 8000,
  STORE_MS = 20000,
  LINE = 256,
  EVENTS = 8192,
  PEERS = 4,
  QUIETLY = 2
};

struct peer {
  char name[LINE];
  weft_peer_t id;
  weft_dlist_t *list;
  weft_transfer_t *transfers[3]; // by weft_op; the last one writes without a notification
};

static weft_agent_t *agent;
static weft_store_t *store;
static weft_dlist_t *here;
static unsigned char *memory;
static struct peer peers[PEERS];
static char events[EVENTS];

static void answer(int rc) {
  if (rc == 0)
    puts("OK");
  else
    printf("%s: %s\n", weft_err_name(rc), weft_last_error());
}

static void must(int rc) {
  if (rc == 0)
    return;
  printf("failed: %s: %s\n", weft_err_name(rc), weft_last_error());
  exit(1);
}

// All events so far.
static void print_events(void) {
  static const char *const kinds[] = {"", "loaded", "updated", "left", "lost"};
  struct weft_agent_event event = WEFT_AGENT_EVENT_INIT;
  while (weft_agent_next_event(agent, &event) == 1) {
    size_t used = strlen(events);
    snprintf(events + used, sizeof events - used, "%s %s (%s); ", kinds[event.kind], event.name, event.detail);
  }
  puts(events);
}

static struct peer *find(const char *name) {
  struct peer *peer = peers;
  while (peer < peers + PEERS - 1 && peer->name[0] && strcmp(peer->name, name) != 0)
    peer++;
  snprintf(peer->name, sizeof peer->name, "%s", name);
  return peer;
}

// All of its first region and all of this agent's, both ways.
static int prepare(struct peer *peer) {
  struct weft_region_info info;
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  uint32_t count = 1;
  options.notification = "written";
  options.notification_size = 7;
  int rc = weft_agent_regions(agent, peer->id, &info, sizeof info, count, &count);
  struct weft_descriptor there = {info.address, BYTES, info.region};
  if (rc == 0)
    rc = weft_dlist_create(agent, peer->id, &there, 1, &peer->list);
  if (rc == 0)
    rc = weft_transfer_create(agent, WEFT_TRANSFER_WRITE, here, peer->list, &options,
                              &peer->transfers[WEFT_TRANSFER_WRITE]);
  if (rc == 0)
    rc = weft_transfer_create(agent, WEFT_TRANSFER_READ, here, peer->list, NULL, &peer->transfers[WEFT_TRANSFER_READ]);
  if (rc == 0)
    rc = weft_transfer_create(agent, WEFT_TRANSFER_WRITE, here, peer->list, NULL, &peer->transfers[QUIETLY]);
  return rc;
}

static int fetch(struct peer *peer) {
  weft_peer_t id = 0;
  int rc = weft_agent_fetch(agent, peer->name, NULL, STORE_MS, &id);
  if (rc != 0 || id == peer->id)
    return rc;
  for (int i = 0; i < 3; i++)
    must(weft_transfer_free(peer->transfers[i]));
  must(weft_dlist_free(peer->list));
  peer->id = id;
  return prepare(peer);
}

static int move(struct peer *peer, int op) {
  int rc = weft_transfer_post(peer->transfers[op]);
  return rc == 0 ? weft_transfer_wait(peer->transfers[op], WAIT_MS) : rc;
}

// Writes again and again, until a write fails.
static int stream(struct peer *peer) {
  int rc;
  do
    rc = move(peer, QUIETLY);
  while (rc == 0);
  return rc;
}

static void print_wrong(int wanted) {
  uint32_t wrong = 0;
  for (size_t i = 0; i < BYTES; i++)
    wrong += memory[i] != wanted;
  printf("%u\n", wrong);
}

static void print_notifications(void) {
  static uint32_t total;
  struct weft_notification some[16];
  uint32_t count = 16;
  must(weft_agent_notifications(agent, some, count, &count));
  printf("%u\n", total += count);
}

static void obey(const char *line) {
  char name[LINE] = "";
  int number = 0;
  if (sscanf(line, "fetch %s", name) == 1)
    answer(fetch(find(name)));
  else if (sscanf(line, "write %s", name) == 1)
    answer(move(find(name), WEFT_TRANSFER_WRITE));
  else if (sscanf(line, "read %s", name) == 1)
    answer(move(find(name), WEFT_TRANSFER_READ));
  else if (sscanf(line, "stream %s", name) == 1)
    answer(stream(find(name)));
  else if (sscanf(line, "state %s", name) == 1)
    answer(weft_agent_check(agent, find(name)->id));
  else if (sscanf(line, "check %d", &number) == 1)
    print_wrong(number);
  else if (strncmp(line, "notifications", 13) == 0)
    print_notifications();
  else if (strncmp(line, "events", 6) == 0)
    print_events();
  else if (sscanf(line, "fill %d", &number) == 1) {
    memset(memory, number, BYTES);
    answer(0);
  }
}

int main(int argc, char **argv) {
  static char line[LINE];
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc != 6)
    return 2;
  struct weft_store_options in = WEFT_STORE_OPTIONS_INIT;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  in.endpoints = argv[3];
  must(weft_store_open(&store, &in));
  options.name = argv[1];
  options.transports = argv[2];
  options.store = store;
  options.prefix = "/weft/test/";
  options.lease_ttl_s = (uint32_t)atoi(argv[4]);
  options.heartbeat_ms = 100;
  options.peer_timeout_ms = (uint32_t)atoi(argv[5]);
  options.transfer_timeout_ms = TRANSFER_MS;
  int rc = weft_agent_open(&agent, &options);
  if (rc == WEFT_ERR_UNSUPPORTED) {
    printf("skipped: %s\n", weft_last_error());
    return 77;
  }
  must(rc);
  weft_region_t region;
  void *address;
  must(weft_agent_allocate(agent, WEFT_MEMORY_HOST, BYTES, -1, &region, &address));
  memory = address;
  struct weft_descriptor all = {(uintptr_t)memory, BYTES, region};
  must(weft_dlist_create(agent, WEFT_PEER_SELF, &all, 1, &here));
  must(weft_agent_publish(agent, NULL, NULL, WAIT_MS));
  puts("ready");
  while (fgets(line, sizeof line, stdin))
    obey(line);
  weft_agent_close(agent);
  weft_store_close(store);
  return 0;
}
