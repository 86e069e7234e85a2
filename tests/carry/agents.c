#include "carry/agents.h"

#include <poll.h>
#include <string.h>

weft_agent_t *carry_agent(const char *name) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  weft_agent_t *agent;
  options.name = name;
  options.transports = "shm";
  carry_must(weft_agent_open(&agent, &options), "open");
  return agent;
}

void carry_know(weft_agent_t *from, weft_agent_t *to, const struct weft_metadata_options *what, weft_peer_t *peer) {
  static char blob[1 << 16];
  size_t size;
  carry_must(weft_agent_metadata(from, what, blob, sizeof blob, &size), "metadata");
  carry_must(weft_agent_load(to, blob, size, peer), "load");
}

void carry_notified(weft_agent_t *agent, const char *text) {
  struct pollfd news = {.events = POLLIN};
  struct weft_notification note;
  uint32_t count = 0;
  carry_must(weft_agent_fd(agent, &news.fd), "fd");
  while (carry_must(weft_agent_notifications(agent, &note, 1, &count), "notifications") == 0 && count == 0)
    carry_is(poll(&news, 1, CARRY_MS) == 1, "a notification comes");
  carry_is(note.size == strlen(text) && memcmp(note.bytes, text, note.size) == 0, "it is the one of the post");
}
