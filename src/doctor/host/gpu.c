// GPUs: their driver, which of them Weft can use, and which of them reach each other's memory.
#include "base/text/text.h"
#include "doctor/host/host.h"

#include "base/fail.h"
#include "device/device.h"
#include "doctor/host/read.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void describe(struct doctor_gpu_facts *facts, const struct device_api *api, size_t index) {
  struct device_info info = {0};
  char why[DEVICE_WHY] = "";
  if (api->describe((int)index, &info, why))
    snprintf(facts->gpus[index].error, sizeof facts->gpus[index].error, "%s", *why ? why : "no reason given");
  snprintf(facts->gpus[index].name, sizeof facts->gpus[index].name, "%.63s", info.name);
  snprintf(facts->gpus[index].pci, sizeof facts->gpus[index].pci, "%.15s", info.pci);
  facts->gpus[index].windows = info.windows;
  facts->gpus[index].fabric = info.fabric;
}

static void try_pair(struct doctor_gpu_facts *facts, const struct device_api *api, int a, int b) {
  char why[DEVICE_WHY] = "";
  facts->pairs++;
  if (api->check_peer(a, b, why) && facts->pairs_apart++ == 0)
    snprintf(facts->apart, sizeof facts->apart, "%d and %d: %.200s", a, b, why);
}

// NVIDIA's IMEX guide: "IMEX Channels".
static bool has_channel(const char *root) {
  char pattern[512];
  glob_t found = {0};
  snprintf(pattern, sizeof pattern, "%s/dev/nvidia-caps-imex-channels/channel*", root);
  bool has = false;
  glob(pattern, 0, NULL, &found); // found stays empty where there is none
  for (size_t i = 0; i < found.gl_pathc; i++)
    has |= access(found.gl_pathv[i], R_OK) == 0;
  globfree(&found);
  return has;
}

void doctor_gather_gpu(struct doctor_gpu_facts *facts, const char *root) {
  char line[DOCTOR_TEXT];
  if (doctor_read_line(root, "/proc/driver/nvidia/version", line, sizeof line))
    memcpy(facts->driver, line, sizeof line);
  char module[512];
  snprintf(module, sizeof module, "%s/sys/module/nvidia_peermem", root);
  facts->peer_memory = access(module, F_OK) == 0;
  facts->channel = has_channel(root);
  const struct device_api *api = NULL;
  char why[DEVICE_WHY] = "";
  int count = 0;
  if (device_load(&api))
    snprintf(facts->missing, sizeof facts->missing, "%s", weft_last_error());
  else if (api->count(&count, why))
    snprintf(facts->missing, sizeof facts->missing, "%s", why);
  else if (count == 0)
    snprintf(facts->missing, sizeof facts->missing, "there is no GPU");
  facts->count = count > DOCTOR_GPUS ? DOCTOR_GPUS : count > 0 ? (size_t)count : 0;
  for (size_t i = 0; i < facts->count; i++)
    describe(facts, api, i);
  for (size_t a = 0; a < facts->count; a++)
    for (size_t b = a + 1; b < facts->count; b++)
      try_pair(facts, api, (int)a, (int)b);
}

static size_t on_bus(const struct doctor_facts *facts) {
  return facts->choice ? facts->choice->num_gpus : 0;
}

void doctor_judge_driver(const struct doctor_facts *facts, struct doctor_report *report) {
  if (*facts->gpu.driver) {
    doctor_find(report, DOCTOR_OK, "%s", facts->gpu.driver);
  } else if (facts->gpu.count > 0) { // as in a container that hides it
    doctor_find(report, DOCTOR_OK, "the driver answers, but does not show its version in /proc/driver/nvidia");
  } else if (on_bus(facts) > 0) {
    doctor_find(report, DOCTOR_PROBLEM, "%zu NVIDIA GPU%s %s on the PCI bus, but there is no driver", on_bus(facts),
                text_s(on_bus(facts)), on_bus(facts) == 1 ? "is" : "are");
    doctor_means(report, "no program can use them");
    doctor_fix(report, "install the NVIDIA driver (such as the package nvidia-driver), then 'modprobe nvidia'; in a "
                       "container, start it with the GPUs (docker run --gpus all)");
  } else {
    doctor_find(report, DOCTOR_NOTE, "there is no NVIDIA GPU and no driver");
    doctor_means(report, "everything runs in host memory");
  }
}

void doctor_judge_gpus(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_gpu_facts *gpu = &facts->gpu;
  if (*gpu->missing) {
    bool wanted = *gpu->driver || on_bus(facts) > 0;
    doctor_find(report, wanted ? DOCTOR_PROBLEM : DOCTOR_NOTE, "Weft cannot use any GPU: %s", gpu->missing);
    doctor_means(report, "'--memory cuda' will not work");
    if (wanted)
      doctor_fix(report, "build Weft with nvcc and install libweft_cuda beside libweft, and see that "
                         "CUDA_VISIBLE_DEVICES does not hide the GPUs");
    return;
  }
  for (size_t i = 0; i < gpu->count; i++) {
    if (*gpu->gpus[i].error) {
      doctor_find(report, DOCTOR_PROBLEM, "GPU %zu does not answer: %s", i, gpu->gpus[i].error);
      doctor_means(report, "a rank on it will not start");
      doctor_fix(report, "look for Xid errors in 'dmesg'; 'nvidia-smi -q -i %zu' shows whether it has to be reset", i);
    } else if (!gpu->gpus[i].windows) {
      doctor_find(report, DOCTOR_NOTE, "GPU %zu, %s at %s, cannot share its memory between processes", i,
                  gpu->gpus[i].name, gpu->gpus[i].pci);
      doctor_means(report, "ranks on it reach no other rank");
      doctor_fix(report, "use a driver and a GPU with virtual memory management and file descriptors as handles");
    } else {
      doctor_find(report, DOCTOR_OK, "GPU %zu: %s at %s", i, gpu->gpus[i].name, gpu->gpus[i].pci);
    }
  }
}

void doctor_judge_peer_access(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_gpu_facts *gpu = &facts->gpu;
  if (gpu->pairs == 0)
    return;
  if (gpu->pairs_apart == 0) {
    if (gpu->pairs == 1)
      doctor_find(report, DOCTOR_OK, "both GPUs reach each other's memory");
    else
      doctor_find(report, DOCTOR_OK, "all %zu pairs of GPUs reach each other's memory", gpu->pairs);
    return;
  }
  doctor_find(report, DOCTOR_PROBLEM, "%zu of %zu pair%s of GPUs %s not reach each other's memory, such as %s",
              gpu->pairs_apart, gpu->pairs, text_s(gpu->pairs), gpu->pairs_apart == 1 ? "does" : "do", gpu->apart);
  doctor_means(report, "ranks on such a pair cannot be in one group that uses GPU memory");
  doctor_fix(report, "'nvidia-smi topo -p2p r' shows the pairs and reasons; with NVSwitch, nvidia-fabricmanager has to "
                     "run; over PCIe, switch ACS redirection off, and let a container or guest see all GPUs");
}

void doctor_judge_fabric(const struct doctor_facts *facts, struct doctor_report *report) {
  size_t able = 0;
  for (size_t i = 0; i < facts->gpu.count; i++)
    able += facts->gpu.gpus[i].fabric;
  if (able == 0)
    return;
  if (facts->gpu.channel) {
    doctor_find(report, DOCTOR_OK,
                "this process may use an IMEX channel: NVLink reaches GPUs of other containers and other hosts");
    return;
  }
  doctor_find(report, DOCTOR_NOTE, "the GPUs could use an IMEX channel, but there is none that this process may use");
  doctor_means(report, "ranks in other containers, or on other hosts of an NVLink domain, are reached by the network");
  doctor_fix(report, "'mknod /dev/nvidia-caps-imex-channels/channel0 c NUMBER 0', with the number of "
                     "nvidia-caps-imex-channels in /proc/devices, or NVreg_CreateImexChannel0=1 for the module nvidia; "
                     "containers get that device");
}

void doctor_judge_gpu_rdma(const struct doctor_facts *facts, struct doctor_report *report) {
  if (facts->gpu.count == 0 || facts->rdma.count == 0)
    return;
  if (facts->gpu.peer_memory) {
    doctor_find(report, DOCTOR_OK, "the kernel module nvidia_peermem is loaded");
    return;
  }
  doctor_find(report, DOCTOR_NOTE, "the kernel module nvidia_peermem is not loaded");
  doctor_means(report, "NICs reach GPU memory by dma-buf (which takes the driver's open kernel modules) or not at all; "
                       "then every transfer goes through host memory");
  doctor_fix(report, "run 'modprobe nvidia-peermem'; a file in /etc/modules-load.d does it at every start");
}
