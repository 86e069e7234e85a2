// NIXL's back ends and memory queries: an agent without back ends opens one by name, asks whether a file exists, and
// stores memory in it.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "carry/carry.h"
#include "support/temporary.h"

enum { BYTES = 10000 };

static struct weft_memory_status ask(weft_agent_t *agent, const struct weft_agent_memory *memory) {
  struct weft_memory_status status = WEFT_MEMORY_STATUS_INIT;
  carry_must(weft_agent_query_memory(agent, memory, CARRY_MS, &status), "query_memory");
  return status;
}

static weft_dlist_t *list(weft_agent_t *agent, uint64_t address, weft_region_t region) {
  struct weft_descriptor all = {address, BYTES, region};
  weft_dlist_t *made;
  carry_must(weft_dlist_create(agent, WEFT_PEER_SELF, &all, 1, &made), "dlist_create");
  return made;
}

int main(void) {
  static char memory[BYTES];
  char path[96];
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  struct weft_agent_memory host = WEFT_AGENT_MEMORY_INIT, file = WEFT_AGENT_MEMORY_INIT;
  weft_agent_t *agent;
  weft_region_t here, there;
  weft_transfer_t *transfer;
  options.name = "keeper";
  options.transports = "";
  carry_must(weft_agent_open(&agent, &options), "open");
  support_temporary(path, sizeof path, "weft-carry-storage");
  close(mkstemp(path));
  unlink(path); // the name is free now
  host.address = memory;
  host.length = BYTES;
  file.kind = WEFT_MEMORY_FILE;
  file.path = path;
  carry_is(ask(agent, &host).flags == WEFT_MEMORY_THERE && ask(agent, &file).flags == 0,
           "memory is there, no file yet");
  carry_is(weft_agent_register(agent, &file, &there) == WEFT_ERR_UNSUPPORTED, "without its transport there is no file");
  carry_must(weft_agent_add_transport(agent, "file"), "add_transport");
  carry_must(weft_agent_register(agent, &host, &here), "register memory");
  carry_must(weft_agent_register(agent, &file, &there), "register a file");
  weft_dlist_t *local = list(agent, (uintptr_t)memory, here), *remote = list(agent, 0, there);
  carry_must(weft_transfer_create(agent, WEFT_TRANSFER_WRITE, local, remote, NULL, &transfer), "transfer_create");
  carry_must(weft_transfer_post(transfer), "post");
  carry_is(weft_transfer_wait(transfer, CARRY_MS) == 0, "it ends");
  carry_is(ask(agent, &file).length == BYTES && ask(agent, &file).region == there, "the file has what was written");
  carry_must(weft_transfer_free(transfer), "transfer_free");
  carry_must(weft_dlist_free(local), "dlist_free");
  carry_must(weft_dlist_free(remote), "dlist_free");
  weft_agent_close(agent);
  unlink(path);
}
