// One function for each variable; sources of their meanings are the manuals of UCX (ucx_info -cf), NCCL and NVSHMEM
// (docs.nvidia.com, "Environment Variables"), libfabric (fi_info -e) and Gloo.
#include "topology/served/exports.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void say(char *out, size_t cap, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void say(char *out, size_t cap, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(out, cap, format, arguments);
  va_end(arguments);
}

#define WHY(export, ...) say((export)->why, sizeof(export)->why, __VA_ARGS__)

static bool is_efa(const struct topology_nic *nic) {
  return topology_nic_network(nic) == TOPOLOGY_EFA;
}

// Whether the host's ranks use the NIC: it serves a GPU or, if there is no GPU, it is usable.
static bool is_used(const struct topology_choice *choice, const struct topology_nic *nic) {
  return choice->num_gpus > 0 ? nic->chosen : nic->usable;
}

static bool serves(const struct topology_choice *choice, int gpu, size_t nic) {
  for (size_t i = 0; i < choice->gpus[gpu].num_nics; i++)
    if (choice->gpus[gpu].nics[i] == nic)
      return true;
  return false;
}

static bool uses_efa(const struct topology_choice *choice) {
  for (size_t n = 0; n < choice->num_nics; n++)
    if (is_efa(&choice->nics[n]) && is_used(choice, &choice->nics[n]))
      return true;
  return false;
}

// Why a list of devices for verbs is left out.
static void no_verbs(const struct topology_exports_facts *facts, struct topology_export *to) {
  WHY(to, uses_efa(facts->choice) ? "the NICs are Elastic Fabric Adapters, which take libfabric rather than verbs"
                                  : "no RDMA device is used on this host");
}

typedef bool want(const struct topology_nic *);

static bool verbs(const struct topology_nic *nic) {
  return *nic->rdma && !is_efa(nic);
}

// Writes the names of NICs, those of a GPU only when it is not -1, and returns their number. An incomplete list would
// be wrong, so it returns 0 if there is not enough room.
static size_t list(const struct topology_choice *choice, int gpu, want *wanted, const char *port,
                   char out[TOPOLOGY_VALUE]) {
  size_t count = 0, used = strlen(out);
  for (size_t n = 0; n < choice->num_nics; n++) {
    const struct topology_nic *nic = &choice->nics[n];
    if (!wanted(nic) || !(gpu >= 0 ? serves(choice, gpu, n) : is_used(choice, nic)))
      continue;
    int size = snprintf(out + used, TOPOLOGY_VALUE - used, "%s%s%s", count++ ? "," : "", topology_nic_name(nic), port);
    used += (size_t)size;
    if (used >= TOPOLOGY_VALUE) {
      out[0] = '\0';
      return 0;
    }
  }
  return count;
}

static void name_interface(const struct topology_exports_facts *facts, struct topology_export *to, const char *before) {
  to->set = *facts->interface;
  if (to->set) {
    say(to->value, sizeof to->value, "%s%s", before, facts->interface);
    WHY(to, "the default route leads through it");
  } else {
    WHY(to, "there is no default route, and nothing else shows which interface leads to the other hosts");
  }
}

// A UCX that supports EFA (its transport is srd) uses the adapters; another one reports that they do not exist and uses
// the interface. Without these settings, it may try InfiniBand devices that reach no other host.
static void ucx_on_efa(const struct topology_exports_facts *facts, struct topology_export *to) {
  to->set = *facts->interface && list(facts->choice, facts->gpu, is_efa, ":1", to->value) > 0;
  if (to->set) {
    say(to->value + strlen(to->value), sizeof to->value - strlen(to->value), ",%s", facts->interface);
    WHY(to, "Elastic Fabric Adapters, for a UCX that has srd, and the default route's interface for one without");
  } else {
    WHY(to, "the NICs are Elastic Fabric Adapters, which not every UCX can use, and there is no default route");
  }
}

// Without RDMA it is not the nearest NIC that counts but one with an address, which the default route's has.
static void ucx_net_devices(const struct topology_exports_facts *facts, struct topology_export *to) {
  const struct topology_choice *choice = facts->choice;
  to->set = list(choice, facts->gpu, verbs, ":1", to->value) > 0;
  if (to->set && facts->gpu >= 0) {
    WHY(to, "%s", choice->gpus[facts->gpu].why);
  } else if (to->set) {
    WHY(to, choice->num_gpus == 0 ? "the RDMA devices that can be used"
            : facts->ranked       ? "the NICs nearest to some GPU"
                                  : "the NICs nearest to some GPU; with --rank, those of one");
  } else if (uses_efa(choice)) {
    ucx_on_efa(facts, to);
  } else {
    name_interface(facts, to, "");
    if (to->set)
      WHY(to, "no RDMA device is used, and the default route leads through it");
  }
}

static void ucx_tls(const struct topology_exports_facts *facts, struct topology_export *to) {
  to->set = facts->cma_refused;
  if (to->set) {
    say(to->value, sizeof to->value, "^cma");
    WHY(to, "processes may not read each other's memory here ('weft doctor' says why); all other transports stay");
  } else {
    WHY(to, "UCX chooses among all of its transports, and nothing on this host rules one out");
  }
}

static void nccl_ib_hca(const struct topology_exports_facts *facts, struct topology_export *to) {
  say(to->value, sizeof to->value, "=");
  to->set = list(facts->choice, -1, verbs, ":1", to->value) > 0;
  if (to->set)
    WHY(to,
        "those that serve GPUs, the same for all ranks: NCCL takes the nearest itself; = means exactly these names");
  else
    no_verbs(facts, to);
}

// Without its plug-in NCCL would use any other verbs devices.
static void nccl_ib_disable(const struct topology_exports_facts *facts, struct topology_export *to) {
  char names[TOPOLOGY_VALUE] = "";
  to->set = uses_efa(facts->choice) && list(facts->choice, -1, verbs, "", names) == 0;
  if (to->set) {
    say(to->value, sizeof to->value, "1");
    WHY(to, "NCCL uses Elastic Fabric Adapters by its plug-in aws-ofi-nccl, never by its own transport for verbs");
  } else {
    WHY(to, "nothing on this host rules out its transport for verbs");
  }
}

static void nvshmem_hca_list(const struct topology_exports_facts *facts, struct topology_export *to) {
  to->set = list(facts->choice, -1, verbs, ":1", to->value) > 0;
  if (to->set)
    WHY(to, "those that serve GPUs, the same for all ranks: NVSHMEM takes the nearest itself");
  else
    no_verbs(facts, to);
}

static void on_efa(const struct topology_exports_facts *facts, struct topology_export *to, const char *value) {
  to->set = uses_efa(facts->choice);
  if (to->set)
    say(to->value, sizeof to->value, "%s", value);
  WHY(to, to->set ? "the NICs are Elastic Fabric Adapters"
                  : "a program that asks libfabric knows best which of its providers fit");
}

static void nvshmem_remote_transport(const struct topology_exports_facts *facts, struct topology_export *to) {
  on_efa(facts, to, "libfabric");
  if (!to->set)
    WHY(to, "nothing here requires another value than its default");
}

static void exact_interface(const struct topology_exports_facts *facts, struct topology_export *to) {
  name_interface(facts, to, "=");
}

static void interface(const struct topology_exports_facts *facts, struct topology_export *to) {
  name_interface(facts, to, "");
}

static void fi_provider(const struct topology_exports_facts *facts, struct topology_export *to) {
  on_efa(facts, to, "efa");
}

static bool any_rdma(const struct topology_nic *nic) {
  return *nic->rdma;
}

static void weft_ofi_nics(const struct topology_exports_facts *facts, struct topology_export *to) {
  to->set = facts->gpu >= 0 && list(facts->choice, facts->gpu, any_rdma, "", to->value) > 0;
  if (to->set)
    WHY(to, "%s", facts->choice->gpus[facts->gpu].why);
  else
    WHY(to, facts->gpu >= 0 ? "this rank has no RDMA device" : "it is of one rank with a GPU");
}

// The variable takes a prefix: mlx5_1 would mean mlx5_10 too.
static bool begins_another(const struct topology_choice *choice, const char *name) {
  size_t begins = 0;
  for (size_t n = 0; n < choice->num_nics; n++)
    begins += strncmp(choice->nics[n].rdma, name, strlen(name)) == 0;
  return begins > 1;
}

static void fi_verbs_device(const struct topology_exports_facts *facts, struct topology_export *to) {
  size_t count = facts->gpu >= 0 ? list(facts->choice, facts->gpu, verbs, "", to->value) : 0;
  bool other = count == 1 && begins_another(facts->choice, to->value);
  to->set = count == 1 && !other;
  if (to->set)
    WHY(to, "%s", facts->choice->gpus[facts->gpu].why);
  else if (other)
    WHY(to, "it matches the beginning of a name, and another name also begins with %s", to->value);
  else if (list(facts->choice, -1, verbs, "", to->value) == 0)
    no_verbs(facts, to);
  else
    WHY(to, facts->ranked ? "it names one device, and this rank has none or several of verbs"
                          : "it names one device, so it takes a --rank");
}

static void cuda_visible_devices(const struct topology_exports_facts *facts, struct topology_export *to) {
  (void)facts;
  WHY(to, "it is not changed: the launcher decides which GPUs a rank may use");
}

size_t topology_exports(const struct topology_exports_facts *facts, struct topology_export out[TOPOLOGY_EXPORTS]) {
  static const struct {
    const char *name;
    void (*fill)(const struct topology_exports_facts *, struct topology_export *);
  } table[] = {
      {"UCX_NET_DEVICES", ucx_net_devices},
      {"UCX_TLS", ucx_tls},
      {"NCCL_IB_HCA", nccl_ib_hca},
      {"NCCL_IB_DISABLE", nccl_ib_disable},
      {"NCCL_SOCKET_IFNAME", exact_interface},
      {"NVSHMEM_HCA_LIST", nvshmem_hca_list},
      {"NVSHMEM_REMOTE_TRANSPORT", nvshmem_remote_transport},
      {"NVSHMEM_LIBFABRIC_PROVIDER", fi_provider},
      {"NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", interface},
      {"GLOO_SOCKET_IFNAME", interface},
      {"WEFT_OFI_NICS", weft_ofi_nics},
      {"FI_PROVIDER", fi_provider},
      {"FI_VERBS_DEVICE_NAME", fi_verbs_device},
      {"FI_TCP_IFACE", interface},
      {"CUDA_VISIBLE_DEVICES", cuda_visible_devices},
  };
  size_t count = sizeof table / sizeof table[0];
  for (size_t i = 0; i < count; i++) {
    out[i] = (struct topology_export){.name = table[i].name};
    table[i].fill(facts, &out[i]);
    if (!out[i].set)
      out[i].value[0] = '\0';
  }
  return count;
}
