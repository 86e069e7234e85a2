// Network interfaces and their MTU.
#include "doctor/host/host.h"

#include "doctor/host/read.h"

#include <dirent.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE_SIZE = 64, PATH_SIZE = 512, FAST_MBIT_S = 25000, STANDARD_MTU = 1500 };

static const char *read_attribute(const char *root, const char *interface, const char *name, char out[LINE_SIZE]) {
  char path[PATH_SIZE];
  snprintf(path, sizeof path, "/sys/class/net/%s/%s", interface, name);
  return doctor_read_line(root, path, out, LINE_SIZE);
}

static int visible(const struct dirent *entry) {
  return entry->d_name[0] != '.' && strcmp(entry->d_name, "lo") != 0 && strlen(entry->d_name) < TOPOLOGY_NAME;
}

static void gather_interface(struct doctor_interface *interface, const char *root, const char *name) {
  char line[LINE_SIZE];
  *interface = (struct doctor_interface){0};
  snprintf(interface->name, sizeof interface->name, "%.31s", name);
  if (read_attribute(root, name, "operstate", line))
    snprintf(interface->state, sizeof interface->state, "%.15s", line);
  if (read_attribute(root, name, "mtu", line))
    interface->mtu = atoi(line);
  long long mbit_s = read_attribute(root, name, "speed", line) ? strtoll(line, NULL, 10) : 0;
  interface->mbit_s = mbit_s > 0 ? mbit_s : 0;
}

// The kernel is asked, since /sys may be that of another network namespace.
static bool is_loopback_down(void) {
  struct ifreq request = {.ifr_name = "lo"};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return false; // not known
  bool down = ioctl(fd, SIOCGIFFLAGS, &request) != 0 || !(request.ifr_flags & IFF_UP);
  close(fd);
  return down;
}

void doctor_gather_network(struct doctor_network_facts *facts, const char *root) {
  char path[PATH_SIZE];
  snprintf(path, sizeof path, "%s/sys/class/net", root);
  struct dirent **names = NULL;
  int count = scandir(path, &names, visible, versionsort);
  for (int i = 0; i < count; i++) {
    if (facts->count < DOCTOR_INTERFACES)
      gather_interface(&facts->interfaces[facts->count++], root, names[i]->d_name);
    free(names[i]);
  }
  free(names);
  facts->loopback_down = is_loopback_down();
}

void doctor_judge_loopback(const struct doctor_facts *facts, struct doctor_report *report) {
  if (!facts->network.loopback_down) {
    doctor_find(report, DOCTOR_OK, "the loopback interface is up");
    return;
  }
  doctor_find(report, DOCTOR_PROBLEM, "the loopback interface lo is down");
  doctor_means(report, "the processes of one command, such as the ranks of 'weft elastic', reach neither each other "
                       "nor the store that it starts");
  doctor_fix(report, "run 'ip link set dev lo up'");
}

// Interfaces without a carrier of their own, such as those of tunnels, have the state "unknown".
static bool is_up(const struct doctor_interface *interface) {
  return strcmp(interface->state, "up") == 0 || strcmp(interface->state, "unknown") == 0;
}

static void judge_interface(const struct doctor_interface *interface, struct doctor_report *report) {
  if (interface->mtu < 1280) {
    doctor_find(report, DOCTOR_PROBLEM, "%s has an MTU of %d", interface->name, interface->mtu);
    doctor_means(report, "IPv6 does not work below 1280, and every transfer is cut into small packets");
    doctor_fix(report, "run 'ip link set dev %s mtu 1500'", interface->name);
  } else if (interface->mbit_s >= FAST_MBIT_S && interface->mtu <= STANDARD_MTU) {
    doctor_find(report, DOCTOR_NOTE, "%s has %.4g Gbit/s and an MTU of %d", interface->name,
                (double)interface->mbit_s / 1e3, interface->mtu);
    doctor_means(report, "small packets keep the CPU busy, and limit RoCE to an MTU of 1024 bytes");
    doctor_fix(report, "run 'ip link set dev %s mtu 9000', and set the same MTU on all hosts and switches",
               interface->name);
  } else {
    doctor_find(report, DOCTOR_OK, "%s: MTU %d", interface->name, interface->mtu);
  }
}

void doctor_judge_mtu(const struct doctor_facts *facts, struct doctor_report *report) {
  size_t up = 0;
  for (size_t i = 0; i < facts->network.count; i++) {
    if (!is_up(&facts->network.interfaces[i]))
      continue;
    up++;
    if (facts->network.interfaces[i].mtu > 0)
      judge_interface(&facts->network.interfaces[i], report);
  }
  if (up > 0)
    return;
  doctor_find(report, DOCTOR_NOTE, "no network interface but loopback is up");
  doctor_means(report, "this host reaches no other");
  doctor_fix(report, "'ip link' shows the interfaces, 'ip link set dev NAME up' brings one up");
}
