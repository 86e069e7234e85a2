// Where peers call a rank, and how its claim describes that.
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/boot_id.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "ep/core/engine.h"
#include "ep/handshake/steps.h"
#include "ep/link/tcp_listener.h"
#include "ep/link/transport_name.h"
#include "ep/service/service.h"

enum { HOST_ID_SIZE = 64 };

static const char *or_environment(const char *value, const char *name) {
  if (!value || !*value)
    value = secure_getenv(name);
  return value && *value ? value : NULL;
}

static int check_host_id(const char *id) {
  size_t size = id ? strlen(id) : 0;
  for (size_t i = 0; i < size; i++)
    if (!isgraph((unsigned char)id[i]) || id[i] == '"' || id[i] == '\\')
      size = HOST_ID_SIZE;
  if (size >= HOST_ID_SIZE)
    return fail(WEFT_ERR_INVALID,
                "a host id must have at most %d characters, without blanks, quotes and control characters",
                HOST_ID_SIZE - 1);
  return 0;
}

// The name of the host within which shared memory and abstract sockets work: boot id and network namespace, and the id
// that declares a part of the host to be another host.
static int describe_host(const char *id, char *out, size_t cap) {
  char boot[BOOT_ID_SIZE];
  struct stat network;
  int rc = boot_id_read(boot);
  if (rc != 0)
    return rc;
  if (stat("/proc/self/ns/net", &network) != 0)
    return fail_errno(errno, "cannot read the network namespace from /proc/self/ns/net");
  snprintf(out, cap, "%s-%llu%s%s", boot, (unsigned long long)network.st_ino, id ? "/" : "", id ? id : "");
  return 0;
}

static int listen_local(struct ep_links *links, const char *name) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  memcpy(at.sun_path + 1, name, strlen(name)); // an abstract address begins with a NUL, and has no file
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  links->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (links->listener < 0 || bind(links->listener, (struct sockaddr *)&at, size) != 0 ||
      listen(links->listener, 1024) != 0)
    return fail_errno(errno, "cannot listen for peers");
  return 0;
}

// Whether to listen for ranks of other hosts. With a store inside this process there are none, so it takes an explicit
// option.
static bool wants_tcp(const struct ep_links *links, const struct weft_ep_options *options) {
  if (links->transport[0])
    return strcmp(links->transport, "none") != 0;
  return strcmp(weft_store_name(options->store), "local") != 0;
}

static int listen_tcp(struct ep_links *links, const struct weft_ep_options *options) {
  const char *at = or_environment(options->listen, "WEFT_ADDRESS");
  if (!at)
    at = or_environment(NULL, "WEFT_INTERFACE");
  int rc = ep_endpoint_listen(at, &links->tcp_listener, links->endpoints, sizeof links->endpoints);
  if (rc != 0 && (at || links->transport[0]))
    return rc;
  if (rc != 0) { // peers on this host need no TCP listener
    log_info("peers on other hosts cannot connect to this rank: %s", weft_last_error());
    return 0;
  }
  char token[SECRET_DIGITS + 1];
  secret_make(token);
  rc = secret_derive(token, EP_HANDSHAKE_PROTOCOL, links->tcp_key);
  size_t used = strlen(links->address);
  snprintf(links->address + used, sizeof links->address - used, " %s %s", token, links->endpoints);
  return rc;
}

// Reads WEFT_EP_ONCE.
static int choose_once(bool *alone) {
  const char *once = or_environment(NULL, "WEFT_EP_ONCE");
  *alone = once && strcmp(once, "no") == 0;
  return !once || *alone || strcmp(once, "yes") == 0
             ? 0
             : fail(WEFT_ERR_INVALID, "WEFT_EP_ONCE is \"%.40s\"; want yes or no", once);
}

int ep_service_listen(weft_ep_t *ep, const struct weft_ep_options *options) {
  struct ep_links *links = &ep->links;
  const char *host_id = or_environment(options->host_id, "WEFT_HOST_ID");
  const char *transport = or_environment(options->transport, "WEFT_EP_TRANSPORT");
  char host[EP_HOST_SIZE], name[48];
  int rc = transport ? ep_check_transport(transport) : 0;
  if (rc != 0)
    return rc;
  snprintf(links->transport, sizeof links->transport, "%s", transport ? transport : "");
  rc = check_host_id(host_id);
  if (rc == 0)
    rc = choose_once(&links->alone);
  if (rc == 0)
    rc = describe_host(host_id, host, sizeof host);
  if (rc != 0)
    return rc;
  snprintf(name, sizeof name, "weft-%016llx", (unsigned long long)random_id());
  snprintf(links->address, sizeof links->address, "%s %s", host, name);
  rc = listen_local(links, name);
  return rc == 0 && wants_tcp(links, options) ? listen_tcp(links, options) : rc;
}
