// NICs: which of them serve the GPUs, and whether their links are up.
#include "base/text/text.h"
#include "doctor/host/host.h"

static bool known(const struct doctor_facts *facts) {
  return facts->choice && facts->choice->known;
}

static void judge_gpu(const struct topology_choice *choice, size_t index, struct doctor_report *report) {
  const struct topology_gpu *gpu = &choice->gpus[index];
  if (gpu->num_nics == 0) {
    doctor_find(report, DOCTOR_NOTE, "GPU %zu has no NIC: %s", index, gpu->why);
    doctor_means(report, "it reaches other hosts only through host memory and TCP, if at all");
  } else if (gpu->distance == TOPOLOGY_SYS) {
    doctor_find(report, DOCTOR_NOTE, "GPU %zu: %s", index, gpu->why);
    doctor_means(report, "its traffic to other hosts crosses between processors, at a fraction of the NIC's rate");
    doctor_fix(report, "install a NIC near it, or bring up the link of a NIC that is near already ('weft info "
                       "--topology' shows them)");
  } else {
    doctor_find(report, DOCTOR_OK, "GPU %zu: %s", index, gpu->why);
  }
}

void doctor_judge_nics(const struct doctor_facts *facts, struct doctor_report *report) {
  if (!facts->choice) {
    doctor_find(report, DOCTOR_PROBLEM, "%s", facts->choice_error);
    doctor_means(report, "no NIC can be chosen");
    doctor_fix(report, "set WEFT_NICS to names that 'weft info --topology' shows, or unset it");
  } else if (!facts->choice->known) {
    doctor_find(report, DOCTOR_NOTE, "the PCI bus cannot be read, or Weft was built without hwloc");
    doctor_means(report, "no NIC can be chosen for a GPU");
    doctor_fix(report, "build with hwloc (package libhwloc-dev); in a container, mount /sys");
  } else if (facts->choice->num_nics == 0) {
    doctor_find(report, DOCTOR_NOTE, "there is no NIC on the PCI bus");
    doctor_means(report, "other hosts are reached only over interfaces without hardware of their own, if at all");
  } else if (facts->choice->num_gpus == 0) {
    doctor_find(report, DOCTOR_OK, "there is no GPU to serve; NICs: %zu", facts->choice->num_nics);
  } else {
    for (size_t g = 0; g < facts->choice->num_gpus; g++)
      judge_gpu(facts->choice, g, report);
  }
}

static void judge_down(const struct topology_nic *nic, struct doctor_report *report) {
  doctor_find(report, DOCTOR_NOTE, "the link of %s at %s is down", topology_nic_name(nic), nic->address);
  doctor_means(report, "nothing can be sent over it, and the GPUs near it share another NIC");
  if (nic->infiniband)
    doctor_fix(report,
               "check that the cable is plugged in and that a subnet manager (opensm) runs; 'ibstat %s' shows the "
               "state of the port",
               nic->rdma);
  else
    doctor_fix(report,
               "check that the cable is plugged in and that the switch port is on; then run 'ip link set dev %s up'",
               *nic->interface ? nic->interface : "INTERFACE");
}

void doctor_judge_links(const struct doctor_facts *facts, struct doctor_report *report) {
  size_t up = 0, unknown = 0, down = 0;
  for (size_t n = 0; known(facts) && n < facts->choice->num_nics; n++) {
    const struct topology_nic *nic = &facts->choice->nics[n];
    up += nic->link == TOPOLOGY_LINK_UP;
    unknown += nic->link == TOPOLOGY_LINK_UNKNOWN;
    down += nic->link == TOPOLOGY_LINK_DOWN;
    if (nic->link == TOPOLOGY_LINK_DOWN)
      judge_down(nic, report);
  }
  if (down > 0 && up + unknown == 0) {
    if (down == 1)
      doctor_find(report, DOCTOR_PROBLEM, "the link of the only NIC is down");
    else
      doctor_find(report, DOCTOR_PROBLEM, "the links of all %zu NICs are down", down);
    doctor_means(report, "no other host can be reached over them");
  } else if (up > 0) {
    doctor_find(report, DOCTOR_OK, "%zu of %zu link%s %s up", up, up + unknown + down, text_s(up + unknown + down),
                up == 1 ? "is" : "are");
  } else if (unknown > 0) {
    doctor_find(report, DOCTOR_OK, "the system does not show the state of %zu link%s", unknown, text_s(unknown));
  }
}
