// Chooses the provider: it must have RMA and messages between reliable datagram endpoints.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/avoided.h"
#include "base/fail.h"
#include "base/text/settings.h"
#include "transport/ofi/ofi.h"
#include "transport/ofi/pick.h"

// NULL: no memory.
static struct fi_info *wishes(const struct transport_options *options, uint64_t flags, bool cuda) {
  const char *provider = settings_value(options->settings, "provider");
  struct fi_info *hints = fi_allocinfo();
  if (!hints)
    return NULL;
  hints->caps = FI_MSG | FI_RMA | (cuda ? FI_HMEM : 0);
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT | (cuda ? FI_MR_HMEM : 0);
  hints->tx_attr->op_flags = flags;
  if (!(flags & FI_DELIVERY_COMPLETE))
    hints->tx_attr->msg_order = FI_ORDER_RAW; // the read behind the writes
  hints->domain_attr->name = options->device ? strdup(options->device) : NULL;
  hints->fabric_attr->prov_name = provider ? strdup(provider) : NULL;
  bool whole = !hints->domain_attr->name == !options->device && !hints->fabric_attr->prov_name == !provider;
  if (whole)
    return hints;
  fi_freeinfo(hints);
  return NULL;
}

// ofi_rxm allocates its buffers when an endpoint opens: with its own defaults 70 MB, while a worker needs only those
// for small messages. It reads their size and number only from the environment, when libfabric is first used; also the
// setting for the removal of an address.
static const char *const defaults[][2] = {
    {"FI_OFI_RXM_BUFFER_SIZE", "FI_OFI_RXM_BUFFER_SIZE=4608"}, // TRANSPORT_MAX_MESSAGE and headers
    {"FI_OFI_RXM_MSG_RX_SIZE", "FI_OFI_RXM_MSG_RX_SIZE=128"},  // what it takes over other networks than TCP
    {"FI_AV_REMOVE_CLEANUP", "FI_AV_REMOVE_CLEANUP=1"},        // connections go with the address: see ofi.h
};
enum { DEFAULTS = sizeof defaults / sizeof *defaults };
_Static_assert(TRANSPORT_MAX_MESSAGE + 256 <= 4608, "a message fits a buffer of ofi_rxm");

// Adds missing variables to the environment. It does not use setenv(), which may free memory that a getenv() in another
// thread reads: a larger array replaces the old one, and neither is freed.
static void set_defaults(void) {
  static char **larger __attribute__((used)); // else found by nothing once another has replaced it
  size_t count = 0;
  while (environ && environ[count])
    count++;
  larger = malloc((count + DEFAULTS + 1) * sizeof *larger);
  if (!larger)
    return; // it works without
  if (count > 0)
    memcpy(larger, environ, count * sizeof *larger);
  for (size_t i = 0; i < DEFAULTS; i++)
    if (!getenv(defaults[i][0]))
      larger[count++] = (char *)(uintptr_t)defaults[i][1];
  larger[count] = NULL;
  __atomic_store_n(&environ, larger, __ATOMIC_RELEASE);
}

static int try(const struct transport_options *options, uint64_t flags, bool cuda, struct fi_info **info) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, set_defaults);
  struct fi_info *hints = wishes(options, flags, cuda), *list = NULL;
  if (!hints)
    return -FI_ENOMEM;
  int rc = fi_getinfo(OFI_API, NULL, NULL, 0, hints, &list);
  fi_freeinfo(hints);
  if (rc != 0)
    return rc;
  const char *environment = getenv("FI_PROVIDER");
  bool asked = settings_value(options->settings, "provider") || (environment && *environment && *environment != '^');
  const char *nics = settings_value(options->settings, "nics");
  const struct fi_info *best = ofi_pick(list, asked, nics ? nics : getenv("WEFT_OFI_NICS"));
  *info = best ? fi_dupinfo(best) : NULL;
  fi_freeinfo(list);
  return *info ? 0 : -FI_ENODATA;
}

static bool has_gpu(void) {
  return access("/dev/nvidiactl", F_OK) == 0;
}

// Refuses libfabric's shm in versions that Weft avoids. It is chosen only on request, so this is an error.
static int refuse_avoided(struct fi_info **info) {
  unsigned major = FI_MAJOR(fi_version()), minor = FI_MINOR(fi_version());
  const struct avoided *row = avoided_row(AVOIDED_OFI_SHM);
  if (!avoided_in(AVOIDED_OFI_SHM, major, minor) || strcmp((*info)->fabric_attr->prov_name, "shm") != 0)
    return 0;
  fi_freeinfo(*info);
  *info = NULL;
  return fail(WEFT_ERR_UNSUPPORTED, "libfabric %u.%u: Weft does not use %s: %s; %s", major, minor, row->what, row->why,
              row->instead);
}

int ofi_choose(const struct transport_options *options, struct fi_info **info) {
  const char *complete = settings_value(options->settings, "complete");
  bool read = complete && strcmp(complete, "read") == 0;
  int rc = -FI_ENODATA;
  // With GPU memory and completion by delivery, if possible; then without one, and without both.
  for (int wish = 0; wish < 4 && rc != 0 && rc != -FI_ENOMEM; wish++) {
    bool cuda = !(wish & 2), delivery = !(wish & 1);
    if ((cuda && !has_gpu()) || (delivery && read))
      continue;
    rc = try(options, delivery ? FI_DELIVERY_COMPLETE : 0, cuda, info);
  }
  if (rc == 0)
    return refuse_avoided(info);
  if (rc == -FI_ENOMEM)
    return fail(WEFT_ERR_NOMEM, "no memory for libfabric's choice");
  const char *provider = settings_value(options->settings, "provider");
  return fail(WEFT_ERR_UNSUPPORTED,
              "libfabric %u.%u has no provider with RMA between reliable datagram endpoints%s%s%s%s: see fi_info, and "
              "FI_PROVIDER in the environment",
              FI_MAJOR(fi_version()), FI_MINOR(fi_version()), provider ? " named " : "", provider ? provider : "",
              options->device ? " for the device " : "", options->device ? options->device : "");
}
