// NIXL's calls: agents with names, metadata by explicit choice, index subsets, a notification for each post, posts
// again, transports and peers by name, telemetry as a struct.
#include <string.h>

#include "carry/agents.h"

enum { BLOCK = 4096, COUNT = 8 };

// Every block of the memory as a descriptor.
static weft_dlist_t *list(weft_agent_t *agent, weft_peer_t peer, weft_region_t region, uint64_t address) {
  struct weft_descriptor blocks[COUNT] = {0};
  weft_dlist_t *made;
  for (uint64_t i = 0; i < COUNT; i++)
    blocks[i] = (struct weft_descriptor){.region = region, .address = address + i * BLOCK, .length = BLOCK};
  carry_must(weft_dlist_create(agent, peer, blocks, COUNT, &made), "dlist_create");
  return made;
}

int main(void) {
  static const uint32_t from[] = {0, 2, 4}, into[] = {7, 5, 3};
  static const char *const notes[] = {"first", "again"};
  weft_agent_t *a = carry_agent("initiator"), *b = carry_agent("target");
  struct weft_metadata_options chosen = WEFT_METADATA_OPTIONS_INIT;
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  struct weft_peer_info who = WEFT_PEER_INFO_INIT;
  struct weft_transfer_info told = WEFT_TRANSFER_INFO_INIT;
  weft_region_t mine, theirs, secret;
  weft_peer_t target, initiator;
  char *here, *there, *hidden;
  weft_transfer_t *transfer;
  carry_must(weft_agent_allocate(a, WEFT_MEMORY_HOST, COUNT * BLOCK, -1, &mine, (void **)&here), "allocate");
  carry_must(weft_agent_allocate(b, WEFT_MEMORY_HOST, COUNT * BLOCK, -1, &theirs, (void **)&there), "allocate");
  carry_must(weft_agent_allocate(b, WEFT_MEMORY_HOST, BLOCK, -1, &secret, (void **)&hidden), "allocate");
  chosen.flags = WEFT_METADATA_ADDRESSES; // and of the regions this one only
  chosen.regions = &theirs;
  chosen.num_regions = 1;
  carry_know(b, a, &chosen, &target);
  carry_know(a, b, NULL, &initiator);
  carry_must(weft_agent_peer(a, target, &who), "peer");
  carry_is(strcmp(who.name, "target") == 0 && who.num_regions == 1, "the peer has its name, and the region chosen");
  options.local_index = from;
  options.remote_index = into;
  options.num_index = 3;
  options.max_notification = 16;
  options.transport = "shm";
  weft_dlist_t *local = list(a, WEFT_PEER_SELF, mine, (uintptr_t)here),
               *remote = list(a, target, theirs, (uintptr_t)there);
  carry_must(weft_transfer_create(a, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer), "transfer_create");
  for (int i = 0; i < 2; i++) {
    struct weft_post post = WEFT_POST_INIT;
    post.notification = notes[i];
    post.notification_size = (uint32_t)strlen(notes[i]);
    memset(here, 'a' + i, COUNT * BLOCK);
    carry_must(weft_transfer_post_with(transfer, &post), "post_with");
    carry_is(weft_transfer_wait(transfer, CARRY_MS) == 0, "it ends");
    carry_notified(b, notes[i]);
    carry_is(there[7 * BLOCK] == 'a' + i && there[6 * BLOCK] == 0, "the blocks chosen are written, and no other");
  }
  carry_must(weft_transfer_get_info(transfer, &told), "get_info");
  carry_is(told.posts == 2 && told.bytes == 3 * BLOCK && told.end_ns >= told.start_ns, "telemetry tells of both posts");
  carry_must(weft_transfer_free(transfer), "transfer_free");
  carry_must(weft_dlist_free(local), "dlist_free");
  carry_must(weft_dlist_free(remote), "dlist_free");
  weft_agent_close(a);
  weft_agent_close(b);
}
