// State, speed and layer of links, and speed of PCIe links, as sysfs has them.
#include "topology/choice/parts.h"
#include "topology/read/line.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 256, LINE_SIZE = 64 };

static const char *read_line(char out[LINE_SIZE], const char *format, ...) __attribute__((format(printf, 2, 3)));

static const char *read_line(char out[LINE_SIZE], const char *format, ...) {
  char path[PATH_SIZE];
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(path, sizeof path, format, arguments);
  va_end(arguments);
  return size < PATH_SIZE ? topology_read_line(path, out, LINE_SIZE) : NULL;
}

// "4: ACTIVE", and "400 Gb/sec (4X NDR)", of which the number may have a fraction.
static void read_rdma(struct topology_nic *nic, const char *root) {
  char line[LINE_SIZE];
  if (read_line(line, "%s/sys/class/infiniband/%s/ports/1/state", root, nic->rdma))
    nic->link = atoi(line) == 4 ? TOPOLOGY_LINK_UP : TOPOLOGY_LINK_DOWN;
  if (read_line(line, "%s/sys/class/infiniband/%s/ports/1/rate", root, nic->rdma)) {
    double gbit_s = strtod(line, NULL);
    nic->mbit_s = gbit_s > 0 && gbit_s < 4e6 ? (uint32_t)(gbit_s * 1000) : 0;
  }
  if (read_line(line, "%s/sys/class/infiniband/%s/ports/1/link_layer", root, nic->rdma))
    nic->infiniband = strcmp(line, "InfiniBand") == 0;
}

static void read_interface(struct topology_nic *nic, const char *root) {
  char line[LINE_SIZE];
  if (read_line(line, "%s/sys/class/net/%s/operstate", root, nic->interface))
    nic->link = strcmp(line, "up") == 0     ? TOPOLOGY_LINK_UP
                : strcmp(line, "down") == 0 ? TOPOLOGY_LINK_DOWN
                                            : TOPOLOGY_LINK_UNKNOWN;
  if (read_line(line, "%s/sys/class/net/%s/speed", root, nic->interface)) {
    long mbit_s = strtol(line, NULL, 10); // -1 where there is no link
    nic->mbit_s = mbit_s > 0 && mbit_s < INT32_MAX ? (uint32_t)mbit_s : 0;
  }
}

// "32.0 GT/s PCIe" a lane, and lanes. Up to 5 GT/s 8 bits of 10 are data, beyond it 128 of 130.
static void read_pci(struct topology_nic *nic, const char *root) {
  char line[LINE_SIZE];
  double rate = 0, lanes = 0;
  if (read_line(line, "%s/sys/bus/pci/devices/%s/current_link_speed", root, nic->address))
    rate = strtod(line, NULL);
  if (read_line(line, "%s/sys/bus/pci/devices/%s/current_link_width", root, nic->address))
    lanes = strtod(line, NULL);
  if (rate > 0 && rate < 1e3 && lanes > 0 && lanes <= 32)
    nic->pci_mbit_s = (uint32_t)(rate * 1e3 * lanes * (rate > 5 ? 128.0 / 130 : 0.8));
}

void topology_read_links(struct topology_choice *choice, const char *root) {
  for (size_t i = 0; i < choice->num_nics; i++) {
    struct topology_nic *nic = &choice->nics[i];
    read_pci(nic, root);
    if (*nic->rdma)
      read_rdma(nic, root);
    else
      read_interface(nic, root);
  }
}
