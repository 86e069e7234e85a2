// Which names of transports to other hosts may be asked for.
#include "ep/link/transport_name.h"

#include <string.h>

#include "base/fail.h"
#include "transport/transport.h"

int ep_check_transport(const char *name) {
  static const char *const ways[] = {"none", "nvlink", NULL};
  static const char faults[] = "fault:"; // prefix of a transport that fails on purpose
  const char *const *const lists[] = {ways, transport_names()};
  if (strlen(name) < EP_TRANSPORT_NAME && strncmp(name, faults, sizeof faults - 1) == 0)
    return 0;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    for (const char *const *one = lists[i]; *one; one++)
      if (strcmp(*one, name) == 0)
        return 0;
  return fail(WEFT_ERR_INVALID, "%s is not a transport to other hosts: want ofi, ucx, nvlink or none", name);
}
