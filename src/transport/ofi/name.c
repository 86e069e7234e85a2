// The table of names: inserts peers' names, and removes them again, with their connections.
#include <string.h>

#include "base/log.h"
#include "transport/ofi/ofi.h"

// Providers read as many bytes as their kind of name has, so the name is copied into a buffer of zeros.
int ofi_name_insert(struct ofi_worker *worker, const void *name, size_t size, fi_addr_t *address) {
  uint8_t room[OFI_MAX_NAME * 2] = {0};
  memcpy(room, name, size);
  int rc = fi_av_insert(worker->av, room, 1, address, 0, NULL);
  return rc == 1 ? 0 : rc < 0 ? rc : -FI_EINVAL;
}

// Not by fi_inject_write(): if the connection is closed while that is under way, ofi_rxm expects a context, which it
// has not, and the process ends.
static ssize_t write_nothing(struct ofi_worker *worker, const struct ofi_source *source, fi_addr_t address) {
  return fi_write(source->ep, worker->slab, 0, NULL, address, 0, UINT64_MAX, &worker->probe.libfabric);
}

// FI_EAGAIN: a connection is being made. But this call may also have read that the peer has refused an earlier attempt,
// and then nothing is begun. A second call begins it.
static bool begin_connection(struct ofi_worker *worker, const struct ofi_source *source, fi_addr_t address) {
  ssize_t rc = source->ep ? write_nothing(worker, source, address) : 0;
  if (rc == -FI_EAGAIN)
    rc = write_nothing(worker, source, address);
  if (rc == 0 || rc == -FI_EAGAIN)
    return true;
  log_debug("ofi: a name stays in the table, because no connection to it can be started: %s", fi_strerror((int)-rc));
  return false;
}

static bool begin_connections(struct ofi_worker *worker, fi_addr_t address) {
  const struct link *sources = &worker->sources;
  bool begun = !worker->source || begin_connection(worker, worker->source, address);
  for (const struct link *link = sources->next; begun && link != sources; link = link->next)
    begun = begin_connection(worker, LINK_OF(link, struct ofi_source, sources), address);
  return begun;
}

// When ofi_rxm removes a name, it closes an endpoint that is not there, if it could not begin a connection to the name
// (no way to that network, no port, no descriptor), or if that was refused because the peer had begun one: the process
// ends (libfabric 1.17; later ones not tried). So an operation begins one anew first, which moves nothing. Where it
// cannot, there is nothing to close, and the name stays in the table.
void ofi_name_remove(struct ofi_worker *worker, fi_addr_t address, bool doubtful) {
  bool by_rxm = strstr(worker->info->fabric_attr->prov_name, "ofi_rxm") != NULL;
  if (doubtful && by_rxm && !begin_connections(worker, address))
    worker->has_left_names = true;
  else
    fi_av_remove(worker->av, &address, 1, 0);
}
