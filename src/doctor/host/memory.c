// Limits of locked memory and open files, huge pages, and /dev/shm.
#include "doctor/host/host.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

enum { PATH_SIZE = 512, LINE_SIZE = 256, FEW_FILES = 4096 };

static void read_limit(__rlimit_resource_t resource, uint64_t *soft, uint64_t *hard) {
  struct rlimit limit = {0};
  getrlimit(resource, &limit);
  *soft = limit.rlim_cur == RLIM_INFINITY ? DOCTOR_UNLIMITED : limit.rlim_cur;
  *hard = limit.rlim_max == RLIM_INFINITY ? DOCTOR_UNLIMITED : limit.rlim_max;
}

// Finds the line "name: value" in the file at root + path, for each of the names.
static void read_fields(const char *root, const char *path, size_t count, const char *const *names, int base,
                        uint64_t *values) {
  char full[PATH_SIZE], line[LINE_SIZE];
  snprintf(full, sizeof full, "%s%s", root, path);
  FILE *file = fopen(full, "re");
  while (file && fgets(line, sizeof line, file))
    for (size_t i = 0; i < count; i++) {
      size_t size = strlen(names[i]);
      if (strncmp(line, names[i], size) == 0 && line[size] == ':')
        values[i] = strtoull(line + size + 1, NULL, base);
    }
  if (file)
    fclose(file);
}

// A tmpfs that was mounted without a limit (size=0) says that it has no blocks.
static void measure_shm(struct doctor_memory_facts *facts, const struct statvfs *space) {
  bool limited = space->f_blocks > 0;
  facts->shm_size = limited ? (uint64_t)space->f_blocks * space->f_frsize : DOCTOR_UNLIMITED;
  facts->shm_free = limited ? (uint64_t)space->f_bavail * space->f_frsize : DOCTOR_UNLIMITED;
}

// A file system of its own lies on another device than the folder above it.
static void gather_shm(struct doctor_memory_facts *facts, const char *root) {
  char path[PATH_SIZE], above[PATH_SIZE];
  struct stat own, other;
  struct statvfs space;
  snprintf(path, sizeof path, "%s/dev/shm", root);
  snprintf(above, sizeof above, "%s/dev", root);
  facts->shm = stat(path, &own) == 0 && stat(above, &other) == 0 && own.st_dev != other.st_dev;
  if (facts->shm && statvfs(path, &space) == 0)
    measure_shm(facts, &space);
}

// Whether this process is in a user namespace of a container. The kernel checks CAP_IPC_LOCK against the first user
// namespace, whose inode has a fixed number (PROC_USER_INIT_INO).
static bool is_in_user_namespace(const char *root) {
  char path[PATH_SIZE], name[LINE_SIZE] = "";
  snprintf(path, sizeof path, "%s/proc/self/ns/user", root);
  return readlink(path, name, sizeof name - 1) > 0 && strcmp(name, "user:[4026531837]") != 0;
}

void doctor_gather_memory(struct doctor_memory_facts *facts, const char *root) {
  static const char *const huge_names[] = {"HugePages_Total", "HugePages_Free", "Hugepagesize"};
  static const char *const capabilities[] = {"CapEff"};
  uint64_t huge[3] = {0}, effective = 0;
  read_limit(RLIMIT_MEMLOCK, &facts->lockable, &facts->lockable_hard);
  read_limit(RLIMIT_NOFILE, &facts->files, &facts->files_hard);
  read_fields(root, "/proc/meminfo", 3, huge_names, 10, huge);
  read_fields(root, "/proc/self/status", 1, capabilities, 16, &effective);
  facts->huge_total = huge[0];
  facts->huge_free = huge[1];
  facts->huge_page = huge[2] * 1024;
  bool capable = effective >> CAP_IPC_LOCK & 1, inside = is_in_user_namespace(root);
  facts->may_lock = capable && !inside;
  facts->may_lock_inside = capable && inside;
  gather_shm(facts, root);
}

void doctor_judge_memlock(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_memory_facts *memory = &facts->memory;
  if (memory->lockable == DOCTOR_UNLIMITED || memory->may_lock) {
    doctor_find(report, DOCTOR_OK,
                memory->may_lock ? "this process has CAP_IPC_LOCK, and no limit applies to it" : "there is no limit");
    return;
  }
  bool needed = facts->rdma.count > 0 && memory->lockable < GIB;
  bool little = memory->lockable < 64 * MIB;
  doctor_find(report,
              needed   ? DOCTOR_PROBLEM
              : little ? DOCTOR_NOTE
                       : DOCTOR_OK,
              "this process may lock %.4g MiB%s", (double)memory->lockable / MIB,
              memory->may_lock_inside ? "; its CAP_IPC_LOCK is of a user namespace, and does not count" : "");
  if (!needed && !little)
    return;
  doctor_means(report, "registering memory with an RDMA device, or with io_uring, locks it, and fails beyond this");
  doctor_fix(report,
             "%swrite '* - memlock unlimited' to a file of /etc/security/limits.d; a service wants "
             "LimitMEMLOCK=infinity, a container 'docker run --ulimit memlock=-1'",
             memory->lockable_hard == DOCTOR_UNLIMITED ? "run 'ulimit -l unlimited' in this shell; for all shells "
                                                       : "");
}

void doctor_judge_huge_pages(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_memory_facts *memory = &facts->memory;
  double gib = (double)(memory->huge_total * memory->huge_page) / GIB;
  if (memory->huge_total > 0 && memory->huge_free > 0) {
    doctor_find(report, DOCTOR_OK, "%" PRIu64 " of %" PRIu64 " huge pages are free (%.3g GiB in all)",
                memory->huge_free, memory->huge_total, gib);
    return;
  }
  if (memory->huge_total > 0)
    doctor_find(report, DOCTOR_NOTE, "all %" PRIu64 " huge pages are in use", memory->huge_total);
  else
    doctor_find(report, DOCTOR_NOTE, "no huge pages are set aside");
  doctor_means(report,
               "large buffers consist of small pages: the TLB misses more often, and registering them takes longer");
  doctor_fix(report, "run 'sysctl vm.nr_hugepages=N' soon after the start; a file in /etc/sysctl.d keeps it");
}

void doctor_judge_shm(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_memory_facts *memory = &facts->memory;
  static const char fix[] =
      "run 'mount -o remount,size=50% /dev/shm'; start a container with 'docker run --shm-size=16g' or "
      "--ipc=host; give a pod an emptyDir of medium Memory at /dev/shm";
  double size = (double)memory->shm_size / MIB, room = (double)memory->shm_free / MIB;
  if (!memory->shm) {
    doctor_find(report, DOCTOR_PROBLEM, "/dev/shm is missing, or is not a file system of its own");
    doctor_means(report, "shared memory of UCX, libfabric and NCCL fails; Weft's own windows do not use it");
    doctor_fix(report, "run 'mount -t tmpfs tmpfs /dev/shm'");
  } else if (memory->shm_size == DOCTOR_UNLIMITED) {
    doctor_find(report, DOCTOR_OK, "there is no limit");
  } else if (memory->shm_free < 64 * MIB) {
    doctor_find(report, DOCTOR_PROBLEM, "%.0f of %.0f MiB of /dev/shm are free", room, size);
    doctor_means(
        report,
        "when it is full, shared memory of UCX, libfabric and NCCL fails, or kills the process that writes to it");
    doctor_fix(report, "remove what dead programs left in it ('ls -l /dev/shm'), or enlarge it: %s", fix);
  } else if (memory->shm_size < GIB) {
    doctor_find(report, DOCTOR_NOTE, "/dev/shm has %.0f MiB, %.0f of them free", size, room);
    doctor_means(report, "this is little for several ranks with UCX, libfabric or NCCL");
    doctor_fix(report, "%s", fix);
  } else {
    doctor_find(report, DOCTOR_OK, "%.4g of %.4g GiB are free", room / 1024, size / 1024);
  }
}

void doctor_judge_files(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_memory_facts *memory = &facts->memory;
  if (memory->files >= FEW_FILES) {
    if (memory->files == DOCTOR_UNLIMITED)
      doctor_find(report, DOCTOR_OK, "there is no limit");
    else
      doctor_find(report, DOCTOR_OK, "a process may have %" PRIu64 " files open", memory->files);
    return;
  }
  doctor_find(report, DOCTOR_NOTE, "a process may have %" PRIu64 " files open", memory->files);
  doctor_means(report, "each connected peer needs some of them: hundreds of peers will not fit");
  doctor_fix(report, "run 'ulimit -n %d' (the hard limit is %" PRIu64 "), or set LimitNOFILE= in a service", 65536,
             memory->files_hard);
}
