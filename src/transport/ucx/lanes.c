// How UCX reaches a peer: the transports and devices of an endpoint. UCX calls each of these pairs a lane.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ucx/ucx.h"

// In all versions only UCX's printed description of an endpoint shows its lanes: ucp_ep_query() has them since 1.14.
char *ucx_ep_text(ucp_ep_h ep) {
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  if (!file)
    return NULL;
  ucp_ep_print_info(ep, file);
  if (fclose(file) == 0)
    return text;
  free(text);
  return NULL;
}

// "tcp eth0" of a line such as "lane[0]:  1:tcp/eth0.0 md[1] -> md[1]/tcp/sysdev[255] am". The last number of the
// device is that of its path, which is left out.
static bool read_lane(const char *line, char *out, size_t cap) {
  const char *name = strchr(line, ':');
  if (name)
    name = strchr(name + 1, ':');
  if (!name)
    return false;
  size_t size = strcspn(++name, "/ \n");
  const char *device = name + size + 1;
  if (name[size] != '/')
    return false;
  size_t length = strcspn(device, " \n"), digits = length;
  while (digits > 0 && device[digits - 1] >= '0' && device[digits - 1] <= '9')
    digits--;
  if (digits > 1 && digits < length && device[digits - 1] == '.')
    length = digits - 1;
  int used = snprintf(out, cap, "%.*s %.*s", (int)size, name, (int)length, device);
  return used > 0 && (size_t)used < cap;
}

static bool lists(const char *list, const char *lane) {
  size_t size = strlen(lane);
  for (const char *at = list; (at = strstr(at, lane)); at += size)
    if ((at == list || at[-1] == ' ') && (at[size] == ',' || at[size] == '\0'))
      return true;
  return false;
}

// Writes each lane once: "rc_mlx5 mlx5_0:1, tcp eth0".
static void list_lanes(const char *ep_text, char *out, size_t cap) {
  static const char mark[] = " lane[";
  size_t used = 0;
  out[0] = '\0';
  for (const char *line = ep_text; (line = strstr(line, mark)); line += sizeof mark - 1) {
    char lane[64];
    if (!read_lane(line, lane, sizeof lane) || lists(out, lane) || used + strlen(lane) + 3 > cap)
      continue;
    used += (size_t)snprintf(out + used, cap - used, "%s%s", used > 0 ? ", " : "", lane);
  }
}

void ucx_uses(struct transport_worker *worker, const struct transport_peer *base, char *text, size_t cap) {
  const struct ucx_peer *peer = (const struct ucx_peer *)base;
  (void)worker;
  text[0] = '\0';
  char *ep_text = peer->ep && !base->failed && peer->again_ns == 0 ? ucx_ep_text(peer->ep) : NULL;
  if (ep_text)
    list_lanes(ep_text, text, cap);
  free(ep_text);
}
