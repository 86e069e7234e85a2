// Which NICs are considered at all.
#include "topology/choice/parts.h"

#include "base/fail.h"
#include "base/text/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOWER = 4 }; // times slower than the fastest: a NIC for administration

// Whether the item (of `size` bytes) names the NIC: mlx5_0, mlx5_0:1, eth0, or 0000:1b:00.0.
static bool is_named(const struct topology_nic *nic, const char *item, size_t size) {
  const char *names[] = {nic->rdma, nic->interface, nic->address};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (*names[i] && strlen(names[i]) == size && strncasecmp(names[i], item, size) == 0)
      return true;
  size_t length = strlen(nic->rdma);
  return length > 0 && size > length + 1 && strncmp(nic->rdma, item, length) == 0 && item[length] == ':' &&
         isdigit((unsigned char)item[length + 1]) && memchr(item + length + 1, ':', size - length - 1) == NULL;
}

static int unknown_name(const struct topology_choice *choice, const char *item, size_t size) {
  struct text names = {0};
  for (size_t i = 0; i < choice->num_nics; i++)
    text_add(&names, "%s%s", i ? ", " : "", topology_nic_name(&choice->nics[i]));
  char *list = text_take(&names);
  int err = choice->num_nics == 0
                ? fail(WEFT_ERR_INVALID, "WEFT_NICS names %.*s, but this host has no NIC", (int)size, item)
                : fail(WEFT_ERR_INVALID, "WEFT_NICS names %.*s, which is not a NIC of this host; want some of %s",
                       (int)size, item, list ? list : "its NICs");
  free(list);
  return err;
}

// Marks the NICs that the list names as usable.
static int mark_named(struct topology_choice *choice, const char *list) {
  while (*list) {
    size_t size = strcspn(list, ",");
    bool found = size == 0;
    for (size_t i = 0; i < choice->num_nics && size > 0; i++)
      if (is_named(&choice->nics[i], list, size))
        choice->nics[i].usable = found = true;
    if (!found)
      return unknown_name(choice, list, size);
    list += size + (list[size] == ',');
  }
  return 0;
}

static void exclude(struct topology_nic *nic, const char *why) {
  nic->usable = false;
  snprintf(nic->why, sizeof nic->why, "%s", why);
}

static void exclude_links_that_are_down(struct topology_choice *choice) {
  for (size_t i = 0; i < choice->num_nics; i++)
    if (choice->nics[i].usable && choice->nics[i].link == TOPOLOGY_LINK_DOWN)
      exclude(&choice->nics[i], "its link is down");
}

static void exclude_plain_beside_rdma(struct topology_choice *choice) {
  bool any = false;
  for (size_t i = 0; i < choice->num_nics; i++)
    any |= choice->nics[i].usable && *choice->nics[i].rdma;
  for (size_t i = 0; any && i < choice->num_nics; i++)
    if (choice->nics[i].usable && !*choice->nics[i].rdma)
      exclude(&choice->nics[i], "it has no RDMA device, and others have");
}

static void exclude_slow(struct topology_choice *choice) {
  uint32_t fastest = 0;
  for (size_t i = 0; i < choice->num_nics; i++)
    if (choice->nics[i].usable && choice->nics[i].mbit_s > fastest)
      fastest = choice->nics[i].mbit_s;
  for (size_t i = 0; i < choice->num_nics; i++) {
    struct topology_nic *nic = &choice->nics[i];
    if (!nic->usable || nic->mbit_s == 0 || nic->mbit_s > fastest / SLOWER)
      continue;
    nic->usable = false;
    snprintf(nic->why, sizeof nic->why, "its %.4g Gbit/s are much less than the %.4g of another NIC", nic->mbit_s / 1e3,
             fastest / 1e3);
  }
}

// NVSwitches are managed through InfiniBand devices that are active and may stand on a GPU's switch, but reach no other
// host. Their PCIe links show them: on the recorded B200 and B300 they have a 16th and a 32nd of the NICs' width.
static void exclude_narrow(struct topology_choice *choice) {
  uint32_t widest = 0;
  for (size_t i = 0; i < choice->num_nics; i++)
    if (choice->nics[i].usable && choice->nics[i].pci_mbit_s > widest)
      widest = choice->nics[i].pci_mbit_s;
  for (size_t i = 0; i < choice->num_nics; i++) {
    struct topology_nic *nic = &choice->nics[i];
    if (!nic->usable || nic->pci_mbit_s == 0 || nic->pci_mbit_s > widest / SLOWER)
      continue;
    nic->usable = false;
    snprintf(nic->why, sizeof nic->why, "its PCIe link of %.4g Gbit/s is much slower than another one of %.4g",
             nic->pci_mbit_s / 1e3, widest / 1e3);
  }
}

// Ranks that use NICs of two networks would not reach each other. So only the network with most NICs stays; among equal
// ones, the faster.
static void exclude_other_networks(struct topology_choice *choice) {
  uint64_t count[TOPOLOGY_NETWORKS] = {0}, mbit_s[TOPOLOGY_NETWORKS] = {0};
  for (size_t i = 0; i < choice->num_nics; i++)
    if (choice->nics[i].usable) {
      count[topology_nic_network(&choice->nics[i])]++;
      mbit_s[topology_nic_network(&choice->nics[i])] += choice->nics[i].mbit_s;
    }
  int best = 0;
  for (int n = 1; n < TOPOLOGY_NETWORKS; n++)
    if (count[n] > count[best] || (count[n] == count[best] && mbit_s[n] > mbit_s[best]))
      best = n;
  for (size_t i = 0; i < choice->num_nics; i++) {
    struct topology_nic *nic = &choice->nics[i];
    if (!nic->usable || (int)topology_nic_network(nic) == best)
      continue;
    nic->usable = false;
    snprintf(nic->why, sizeof nic->why, "it is on %s, and the others are on %s",
             topology_network_name(topology_nic_network(nic)), topology_network_name((enum topology_network)best));
  }
}

int topology_filter_nics(struct topology_choice *choice, const char *wished) {
  bool all_but = wished[0] == '^', all = wished[0] == '\0';
  for (size_t i = 0; i < choice->num_nics; i++) {
    choice->nics[i].usable = all;
    choice->nics[i].why[0] = '\0';
  }
  int err = all ? 0 : mark_named(choice, wished + all_but);
  if (err)
    return err;
  for (size_t i = 0; !all && i < choice->num_nics; i++) {
    choice->nics[i].usable ^= all_but;
    if (!choice->nics[i].usable)
      exclude(&choice->nics[i], all_but ? "WEFT_NICS leaves it out" : "it is not in WEFT_NICS");
  }
  if (all || all_but) { // a NIC that the user names is used
    exclude_links_that_are_down(choice);
    exclude_plain_beside_rdma(choice);
    exclude_slow(choice);
    exclude_narrow(choice);
    exclude_other_networks(choice);
  }
  return 0;
}
