// The transports that this version knows of, for the application.
#include <stdio.h>

#include "agent/agent.h"
#include "base/fail.h"
#include "base/sized.h"
#include "base/text/text.h"
#include "transport/transport.h"

enum { FIRST_SIZE = SIZED_END(struct weft_transport_info, version) };

static void describe(const char *name, struct weft_transport_info *info) {
  const struct transport *transport = NULL;
  char why[FAIL_DETAIL_SIZE] = "";
  *info = (struct weft_transport_info){0};
  snprintf(info->name, sizeof info->name, "%s", name);
  if (transport_find(name, &transport) != 0) {
    text_fit(info->why, sizeof info->why, weft_last_error());
    return;
  }
  const struct transport_abilities *can = &transport->abilities;
  info->local_kinds = can->local_kinds;
  info->remote_kinds = can->remote_kinds;
  snprintf(info->what, sizeof info->what, "%s", transport->what);
  info->flags = (can->flags & TRANSPORT_MESSAGES ? WEFT_TRANSPORT_MESSAGES : 0u) |
                (can->flags & TRANSPORT_OTHER_HOSTS ? WEFT_TRANSPORT_OTHER_HOSTS : 0u) |
                (can->flags & TRANSPORT_SELF_ONLY ? WEFT_TRANSPORT_STORAGE : 0u);
  if (transport->probe(why, sizeof why) == 0)
    info->flags |= WEFT_TRANSPORT_WORKS;
  else
    text_fit(info->why, sizeof info->why, why);
  if (transport->version)
    transport->version(info->version, sizeof info->version);
}

int weft_transport_list(struct weft_transport_info *info, size_t each, uint32_t cap, uint32_t *count) {
  if (!count || (cap > 0 && !info))
    return fail(WEFT_ERR_INVALID, "%s is NULL", count ? "info" : "count");
  if (cap > 0 && each < FIRST_SIZE)
    return fail(WEFT_ERR_INVALID, "each is %zu: want sizeof(struct weft_transport_info), which was never below %zu",
                each, (size_t)FIRST_SIZE);
  uint32_t number = 0;
  for (const char *const *name = transport_names(); *name; name++, number++) {
    struct weft_transport_info one;
    if (number >= cap)
      continue;
    describe(*name, &one);
    sized_put(info, each, number, &one, sizeof one);
  }
  *count = number;
  return 0;
}
