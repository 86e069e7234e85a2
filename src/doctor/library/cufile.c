// cuFile: whether the transport `file` can move bytes between files and GPU memory directly.
#include "doctor/library/library.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fail.h"
#include "doctor/library/ask.h"
#include "transport/file/cufile.h"

enum { TIMEOUT_MS = 20000 }; // its driver looks at all GPUs and file systems

// Tries whether cuFile accepts a file, since it refuses files in some containers and on some file systems. If no file
// can be made, nothing is reported.
static void try_file(const struct cufile *cufile, FILE *out) {
  const char *folder = getenv("TMPDIR");
  char path[PATH_MAX], words[CUFILE_WORDS];
  snprintf(path, sizeof path, "%s/weft-doctor-XXXXXX", folder && folder[0] ? folder : "/tmp");
  int fd = mkostemp(path, O_CLOEXEC);
  if (fd < 0)
    return;
  cufile_handle handle = NULL;
  struct cufile_target target = {.type = CUFILE_OPAQUE_FD};
  target.of.fd = fd;
  struct cufile_status status = cufile->handle_register(&handle, &target);
  unlink(path);
  if (status.err == CUFILE_SUCCESS)
    cufile->handle_deregister(handle);
  else
    fprintf(out, "missing it refuses files in %s: %s\n", folder && folder[0] ? folder : "/tmp",
            cufile_file_words(status, words));
  close(fd);
}

static void ask(FILE *out) {
  const struct cufile *cufile;
  char version[32];
  if (cufile_load(&cufile) != 0) {
    fprintf(out, "missing %s\n", weft_last_error());
    return;
  }
  fprintf(out, "version %s\n", cufile_version(cufile, version));
  fflush(out);
  if (cufile_driver(cufile) != 0)
    fprintf(out, "missing %s\n", weft_last_error());
  else
    try_file(cufile, out);
}

void doctor_gather_cufile(struct doctor_library_facts *facts) {
  doctor_ask_library(facts, ask, TIMEOUT_MS);
}

void doctor_judge_cufile(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_library_facts *cufile = &facts->cufile;
  if (facts->gpu.count == 0)
    return;
  if (*cufile->missing && !*cufile->version) {
    doctor_find(report, DOCTOR_NOTE, "%s", cufile->missing);
    doctor_fix(report, "install it (package libcufile of CUDA), or name its file in WEFT_CUFILE");
  } else if (*cufile->missing) {
    doctor_find(report, DOCTOR_NOTE, "cuFile %s is installed, but cannot be used: %s", cufile->version,
                cufile->missing);
    doctor_fix(report,
               "run 'modprobe nvidia-fs', or set allow_compat_mode in /etc/cufile.json; a container needs /run/udev "
               "and the devices /dev/nvidia-fs*; cuFile refuses file systems in memory (TMPDIR names another)");
  } else if (cufile->hung || cufile->signal) {
    const char *does = cufile->hung ? "hang" : "crash";
    doctor_find(report, DOCTOR_PROBLEM, "opening the driver of cuFile %s %s", cufile->version,
                cufile->hung ? "hangs" : "ends the process by a signal");
    doctor_fix(report, "install another version; until then, set WEFT_CUFILE=off, so that agents do not %s too", does);
  } else {
    doctor_find(report, DOCTOR_OK, "cuFile %s: files reach GPU memory", cufile->version);
    return;
  }
  doctor_means(report, "the transport file does not reach GPU memory: bytes go through host memory, by two transfers");
}
