// The payload rate of a PCIe link, from sysfs.
#include <stdio.h>
#include <stdlib.h>

#include "limits/hardware/hardware.h"
#include "limits/hardware/sysfs.h"

// The payload share of a packet with 512 bytes of payload, the largest size that devices in use agree on. 24 more bytes
// are the header with a 64-bit address (16), and framing and checksums of the lower layers (8; PCI Express Base
// Specification, chapters 2 and 3).
#define PAYLOAD (512.0 / (512 + 24))

// Data rate of a lane: up to 5 GT/s 8 of 10 bits are data, above it 128 of 130, and from 64 GT/s on 242 of 256.
static double data_rate(double gt_s) {
  return gt_s * (gt_s <= 5 ? 0.8 : gt_s < 64 ? 128.0 / 130 : 242.0 / 256);
}

static int generation(double gt_s) {
  static const double rates[] = {2.5, 5, 8, 16, 32, 64, 128};
  int found = 0;
  for (int i = 0; i < (int)(sizeof rates / sizeof *rates); i++)
    found = gt_s >= rates[i] ? i + 1 : found;
  return found;
}

// The smaller value of the two ends, or the device's own if the other is not known.
static double both_ends(const char *root, const char *address, const char *file) {
  double own = sysfs_number("%s/sys/bus/pci/devices/%s/%s", root, address, file);
  double port = sysfs_number("%s/sys/bus/pci/devices/%s/../%s", root, address, file);
  return own > 0 && port > 0 ? (own < port ? own : port) : own;
}

double limits_pcie_gbps(const char *root, const char *address, char *detail, size_t cap) {
  double rate = both_ends(root, address, "max_link_speed");
  double lanes = both_ends(root, address, "current_link_width");
  if (rate <= 0 || rate > 1e3 || lanes <= 0 || lanes > 32) {
    snprintf(detail, cap, "sysfs does not report the speed of the PCIe link of %s", address);
    return -1;
  }
  snprintf(detail, cap, "PCIe generation %d, %.0f lanes of %g GT/s at %s, as sysfs says, less the headers of packets",
           generation(rate), lanes, rate, address);
  return data_rate(rate) * lanes / 8 * PAYLOAD;
}
