// What the network libraries have chosen, and whether that is TCP.
#include "limits/uses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

// The libraries in which a user can ask for TCP by name.
static const struct library {
  const char *transport, *name;
  const char *variable, *devices; // environment variables: the choice of a provider, and that of interfaces
  const char *rdma, *lists;       // a value for RDMA; the command that shows what there is
} libraries[] = {
    {"ofi", "libfabric", "FI_PROVIDER", NULL, "verbs", "fi_info"},
    {"ucx", "UCX", "UCX_TLS", "UCX_NET_DEVICES", "rc", "ucx_info -d"},
};

static const struct library *find_library(const char *transport) {
  for (size_t i = 0; transport && i < sizeof libraries / sizeof *libraries; i++)
    if (strcmp(libraries[i].transport, transport) == 0)
      return &libraries[i];
  return NULL;
}

// Writes the entry "TRANSPORT WORDS" of the list. Entries have "; " between them; a provider's name may contain a ";".
static bool take_entry(const char *list, const char *transport, char *out, size_t cap) {
  size_t size = strlen(transport);
  for (const char *at = list; at && *at;) {
    const char *end = strstr(at, "; ");
    size_t length = end ? (size_t)(end - at) : strlen(at);
    if (length > size + 1 && length < cap && strncmp(at, transport, size) == 0 && at[size] == ' ') {
      snprintf(out, cap, "%.*s", (int)length, at);
      return true;
    }
    at = end ? end + 2 : NULL;
  }
  return false;
}

static bool begins_with(const char *text, const char *const *words) {
  for (; *words; words++) {
    size_t size = strlen(*words);
    if (strncmp(text, *words, size) == 0 && strchr(" ,;", text[size])) // also at the end of the text
      return true;
  }
  return false;
}

static const char *const tcp[] = {"tcp", "sockets", "net", NULL};
// UCX's transports that only copy within this process.
static const char *const copies[] = {"self", "cuda_copy", "gdr_copy", NULL};

// `words`: "tcp eth0", or "rc_mlx5 mlx5_0:1, tcp eth0", which is not TCP alone.
static bool is_tcp(const char *words) {
  bool found = false;
  for (const char *at = words; at; at = strstr(at, ", "), at = at ? at + 2 : NULL) {
    if (begins_with(at, tcp))
      found = true;
    else if (!begins_with(at, copies))
      return false;
  }
  return found;
}

static bool asked_for_tcp(const struct library *library) {
  const char *list = getenv(library->variable), *devices = library->devices ? getenv(library->devices) : NULL;
  if (devices && *devices && strcmp(devices, "all") != 0)
    return true; // TCP is in use, so the names are those of interfaces
  for (const char *at = list && *list != '^' ? list : ""; *at; at += strcspn(at, ",;"), at += *at != '\0')
    if (begins_with(at, tcp))
      return true;
  return false;
}

static bool between_hosts(const struct limits_route *route) {
  const char *from = route->from.host, *to = route->to.host;
  return from && to ? strcmp(from, to) != 0 : from || to;
}

bool limits_uses_warning(const char *peer_uses, const struct limits_route *route, char *text, size_t cap) {
  const struct library *library = find_library(route->transport);
  bool gpu = route->from.memory == LIMITS_CUDA || route->to.memory == LIMITS_CUDA, far = between_hosts(route);
  char entry[LIMITS_USES];
  if (!library || (!gpu && !far) || !take_entry(peer_uses, library->transport, entry, sizeof entry))
    return false;
  const char *words = entry + strlen(library->transport) + 1;
  if (!is_tcp(words) || asked_for_tcp(library))
    return false;
  snprintf(text, cap,
           "%s go over TCP: %s has chosen \"%s\". `%s` lists what it finds; %s=%s makes it use RDMA or fail, and "
           "%s=tcp says that TCP is intended",
           !gpu  ? "transfers to another host"
           : far ? "transfers of GPU memory to another host"
                 : "transfers of GPU memory",
           library->name, words, library->lists, library->variable, library->rdma, library->variable);
  return true;
}

void limits_uses_note(struct limits_uses *uses, const char *peer_uses, const struct limits_route *route) {
  char entry[LIMITS_USES], known[LIMITS_USES], text[768];
  if (!route->transport || !take_entry(peer_uses, route->transport, entry, sizeof entry))
    return;
  size_t used = strlen(uses->text);
  const char *between = used > 0 ? "; " : "";
  if (!take_entry(uses->text, route->transport, known, sizeof known) &&
      used + strlen(between) + strlen(entry) < sizeof uses->text) {
    strcat(uses->text, between);
    strcat(uses->text, entry);
  }
  if (!uses->warned && limits_uses_warning(peer_uses, route, text, sizeof text)) {
    log_warn("%s", text);
    uses->warned = true;
  }
}
