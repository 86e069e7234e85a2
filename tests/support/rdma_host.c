// Simulates a host with RDMA devices from a recorded machine.
#include "support/rdma_host.h"

#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmocka_all.h"
#include "support/temporary.h"
#include "topology/served/serve.h"

static char root[256];

static void make_folder(const char *below) {
  char path[512];
  snprintf(path, sizeof path, "%s%s", root, below);
  assert_int_equal(mkdir(path, 0700), 0);
}

static void make_file(const char *text, const char *format, size_t number) {
  char below[128], path[512];
  snprintf(below, sizeof below, format, number);
  snprintf(path, sizeof path, "%s%s", root, below);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static void make_devices(const struct topology_choice *choice, size_t most) {
  static const char *const folders[] = {"/sys", "/sys/class", "/sys/class/infiniband_verbs", "/dev", "/dev/infiniband"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    make_folder(folders[i]);
  size_t made = 0;
  for (size_t n = 0; n < choice->num_nics && (most == 0 || made < most); n++) {
    char line[TOPOLOGY_NAME + 1], below[64];
    if (!*choice->nics[n].rdma)
      continue;
    snprintf(below, sizeof below, "/sys/class/infiniband_verbs/uverbs%zu", made);
    make_folder(below);
    snprintf(line, sizeof line, "%s\n", choice->nics[n].rdma);
    make_file(line, "/sys/class/infiniband_verbs/uverbs%zu/ibdev", made);
    make_file("", "/dev/infiniband/uverbs%zu", made);
    made++;
  }
}

struct topology_choice *rdma_host_make(const char *name, size_t most) {
  char path[512];
  struct topology_choice *choice = NULL;
  snprintf(path, sizeof path, "%s/tests/topology/host_%s.xml", getenv("WEFT_SOURCE"), name);
  assert_int_equal(access(path, R_OK), 0);
  setenv("HWLOC_XMLFILE", path, 1);
  const struct topology_choice_options options = {.nics = ""};
  assert_int_equal(topology_choose(&choice, &options), 0);
  assert_true(choice->known);
  support_temporary(root, sizeof root, "weft-rdma");
  assert_non_null(mkdtemp(root));
  make_devices(choice, most);
  topology_serve_root(root);
  rdma_host_show(choice, -1);
  return choice;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk) {
  (void)info, (void)kind, (void)walk;
  return remove(path);
}

void rdma_host_remove(struct topology_choice *host) {
  topology_choice_free(host);
  nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  topology_serve_root(NULL);
}

void rdma_host_show(const struct topology_choice *choice, int gpu) {
  char list[512] = "";
  for (size_t g = 0; g < choice->num_gpus; g++)
    if (gpu < 0 || g == (size_t)gpu)
      snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? "," : "", choice->gpus[g].address);
  setenv("FAKE_PCI", list, 1);
}
