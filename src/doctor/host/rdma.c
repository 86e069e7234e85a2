// RDMA devices, as the kernel shows them in /sys/class/infiniband, and the device files by which programs use them.
#include "base/text/text.h"
#include "doctor/host/host.h"

#include "doctor/host/read.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 512, LINE_SIZE = 64, FIRST_GIDS = 256 };

static bool is_zero_gid(const char *gid) {
  return strspn(gid, "0:") == strlen(gid);
}

static void count_gids(struct doctor_port *port, const char *root) {
  char path[PATH_SIZE], line[LINE_SIZE];
  for (int i = 0; i < FIRST_GIDS; i++) {
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/gids/%d", port->device, port->number, i);
    if (!doctor_read_line(root, path, line, sizeof line))
      return;
    if (is_zero_gid(line))
      continue;
    port->gids++;
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d", port->device, port->number, i);
    if (doctor_read_line(root, path, line, sizeof line))
      port->routable += strcmp(line, "RoCE v2") == 0;
  }
}

static void read_port(struct doctor_port *port, const char *root, const char *name, char out[DOCTOR_NAME]) {
  char path[PATH_SIZE];
  snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/%s", port->device, port->number, name);
  if (!doctor_read_line(root, path, out, DOCTOR_NAME))
    out[0] = '\0';
}

static void gather_ports(struct doctor_rdma_facts *facts, const char *root, const char *device) {
  char path[PATH_SIZE];
  for (int number = 1; facts->count < DOCTOR_PORTS; number++) {
    snprintf(path, sizeof path, "%s/sys/class/infiniband/%s/ports/%d", root, device, number);
    if (access(path, F_OK) != 0)
      return;
    struct doctor_port *port = &facts->ports[facts->count++];
    *port = (struct doctor_port){.number = number};
    snprintf(port->device, sizeof port->device, "%.31s", device);
    read_port(port, root, "state", port->state);
    read_port(port, root, "link_layer", port->layer);
    read_port(port, root, "rate", port->rate);
    count_gids(port, root);
  }
}

static int visible(const struct dirent *entry) {
  return entry->d_name[0] != '.' && strlen(entry->d_name) < TOPOLOGY_NAME;
}

static int is_verbs(const struct dirent *entry) {
  return strncmp(entry->d_name, "uverbs", strlen("uverbs")) == 0;
}

// The names in root + path that `wanted` takes, in order; -1: no such folder.
static int list(const char *root, const char *path, int (*wanted)(const struct dirent *), struct dirent ***out) {
  char full[PATH_SIZE];
  snprintf(full, sizeof full, "%s%s", root, path);
  return scandir(full, out, wanted, versionsort);
}

void doctor_gather_rdma(struct doctor_rdma_facts *facts, const char *root) {
  struct dirent **names = NULL;
  int count = list(root, "/sys/class/infiniband", visible, &names);
  for (int i = 0; i < count; i++) {
    gather_ports(facts, root, names[i]->d_name);
    free(names[i]);
  }
  free(names);
  names = NULL;
  count = list(root, "/dev/infiniband", is_verbs, &names);
  for (int i = 0; i < count; i++) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/dev/infiniband/%.64s", root, names[i]->d_name);
    facts->verbs++;
    facts->verbs_usable += access(path, R_OK | W_OK) == 0;
    free(names[i]);
  }
  free(names);
}

void doctor_judge_rdma(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_rdma_facts *rdma = &facts->rdma;
  if (rdma->count == 0) {
    doctor_find(report, DOCTOR_NOTE, "there is no RDMA device");
    doctor_means(report, "other hosts are reached over TCP: the CPU copies every byte");
  } else if (rdma->verbs == 0) {
    doctor_find(report, DOCTOR_PROBLEM, "there are %zu RDMA ports, but no device file in /dev/infiniband", rdma->count);
    doctor_means(report, "no program can use them");
    doctor_fix(report, "run 'modprobe ib_uverbs' (package rdma-core); in a container, pass /dev/infiniband on "
                       "(docker run --device=/dev/infiniband)");
  } else if (rdma->verbs_usable < rdma->verbs) {
    doctor_find(report, DOCTOR_PROBLEM, "this user may not open %zu of the %zu device files in /dev/infiniband",
                rdma->verbs - rdma->verbs_usable, rdma->verbs);
    doctor_means(report, "transports will not use these RDMA devices");
    doctor_fix(report, "run 'chmod 666 /dev/infiniband/uverbs*', as the udev rules of the package rdma-core do");
  } else {
    doctor_find(report, DOCTOR_OK, "there %s %zu RDMA port%s, and this user may open %zu device file%s",
                rdma->count == 1 ? "is" : "are", rdma->count, text_s(rdma->count), rdma->verbs, text_s(rdma->verbs));
  }
}

static void judge_port(const struct doctor_port *port, struct doctor_report *report) {
  bool ethernet = strcmp(port->layer, "Ethernet") == 0;
  if (!ethernet && atoi(port->state) == 2) { // IBV_PORT_INIT
    doctor_find(report, DOCTOR_PROBLEM, "%s port %d has a link but no address (%s)", port->device, port->number,
                port->state);
    doctor_means(report, "no subnet manager has configured it: no host can reach it");
    doctor_fix(report, "start a subnet manager on the fabric: the switch's own, or opensm on one host");
  } else if (atoi(port->state) != 4) { // not IBV_PORT_ACTIVE
    doctor_find(report, DOCTOR_NOTE, "%s port %d is not active (%s)", port->device, port->number, port->state);
    doctor_means(report, "nothing can be sent over it");
  } else if (port->gids == 0) {
    doctor_find(report, DOCTOR_PROBLEM, "%s port %d is active but has no GID", port->device, port->number);
    doctor_means(report, "connections over it fail when they are made");
    doctor_fix(report, "give its interface an address ('ip address add'); in a container, use the host's network");
  } else if (ethernet && port->routable == 0) {
    doctor_find(report, DOCTOR_NOTE, "%s port %d has %zu GID%s, but none for RoCE v2", port->device, port->number,
                port->gids, text_s(port->gids));
    doctor_means(report, "it reaches only its own Ethernet segment");
    doctor_fix(report, "give its interface an IP address, and set RoCE v2 ('cma_roce_mode -d %s -p %d -m 2')",
               port->device, port->number);
  } else {
    doctor_find(report, DOCTOR_OK, "%s port %d: %s, %s, %zu GIDs", port->device, port->number, port->layer, port->rate,
                port->gids);
  }
}

void doctor_judge_gids(const struct doctor_facts *facts, struct doctor_report *report) {
  for (size_t i = 0; i < facts->rdma.count; i++)
    judge_port(&facts->rdma.ports[i], report);
}
