// Fuzz target: files of tests, scenarios and systems for `weft slurm`, two in one input, with a line "----" between
// them. Any input is refused with the places of its faults, or makes a batch whose scripts can be written.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/support/fuzz.h"
#include "slurm/batch.h"
#include "slurm/script/script.h"

enum { PATH = 64 };

// A file without a name, by the path of its descriptor.
static int hold(const char *text, size_t size, char *path) {
  int fd = memfd_create("weft-fuzz", MFD_CLOEXEC);
  FUZZ_CHECK(fd >= 0 && write(fd, text, size) == (ssize_t)size);
  snprintf(path, PATH, "/proc/self/fd/%d", fd);
  return fd;
}

static void write_scripts(struct slurm_batch *batch) {
  for (int way = SLURM_JOB_EACH; way <= SLURM_ARRAY; way++) {
    struct slurm_planned_jobs jobs = {0};
    batch->submission = (enum slurm_submission)way;
    FUZZ_CHECK(slurm_planned_jobs_make(&jobs, batch) != 0 || jobs.count > 0);
    slurm_planned_jobs_free(&jobs);
  }
  for (size_t i = 0; i < batch->num_runs && i < 8; i++) {
    struct text text = {0};
    slurm_script_write_env(&text, &batch->runs[i]);
    slurm_script_write_toml(&text, batch, &batch->runs[i]);
    text_free(&text);
  }
}

static void check_faults(struct slurm_faults *faults) {
  for (size_t i = 0; i < faults->count; i++)
    FUZZ_CHECK(faults->list[i].at.path && *faults->list[i].text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char between[] = "\n----\n";
  char paths[2][PATH];
  const char *files[] = {paths[0], paths[1]};
  const char *text = (const char *)data, *cut = memmem(data, size, between, sizeof between - 1);
  size_t first = cut ? (size_t)(cut - text) + 1 : size;
  int fds[] = {hold(text, first, paths[0]), -1};
  if (cut)
    fds[1] = hold(cut + sizeof between - 1, size - first - (sizeof between - 2), paths[1]);
  struct slurm_request request = {.files = files, .num_files = cut ? 2 : 1, .weft = "weft"};
  struct slurm_faults faults = {0};
  struct slurm_batch *batch = NULL;
  if (slurm_batch_make(&batch, &request, &faults) == 0) {
    check_faults(&faults);
    if (faults.errors == 0)
      write_scripts(batch);
    slurm_batch_free(batch);
  }
  slurm_faults_free(&faults);
  close(fds[0]);
  if (cut)
    close(fds[1]);
  return 0;
}
