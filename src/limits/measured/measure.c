// The order of the measurements, and the division of the time.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fail.h"
#include "limits/measured/measured.h"

// Each try of a copy takes one slice. The tries take half of the time; the other half is for setting up their memory.
static uint64_t slice_of(const struct limits *limits, const struct limits_measure *measure) {
  enum { SIZES = 4, TRIES = 6, LEAST_MS = 2, MOST_MS = 40 };
  uint32_t counts = 1, nodes = limits->hardware.nodes > 1 ? limits->hardware.nodes : 0;
  for (uint32_t count = 1; count < limits->hardware.processors; count *= 2)
    counts++;
  uint64_t ms = measure->seconds * (uint64_t)1000 / 2 / ((SIZES * counts + nodes * nodes) * TRIES);
  ms = ms < LEAST_MS ? LEAST_MS : ms > MOST_MS ? MOST_MS : ms;
  return ms * 1000000;
}

static const struct part {
  const char *what;
  uint32_t percent; // of the whole, that is done before it
  int (*measure)(const struct limits_try *one);
} parts[] = {{"copies of host memory", 0, limits_measure_copies},
             {"TCP within the host", 60, limits_measure_loopback},
             {"the disk", 70, limits_measure_disk},
             {"GPUs", 85, limits_measure_gpus}};

static int check_path(const char *path) {
  struct stat status;
  if (!path)
    return 0;
  if (stat(path, &status) != 0)
    return fail(WEFT_ERR_INVALID, "--path %s: there is no such folder", path);
  return S_ISDIR(status.st_mode)
             ? 0
             : fail(WEFT_ERR_INVALID, "--path %s: this is not a folder: want a folder on the disk", path);
}

// A part that this host does not have is no failure.
static int run_part(const struct limits_try *one, const struct part *part, char *missing, size_t cap) {
  const struct limits_measure *measure = one->measure;
  if (measure->progress)
    measure->progress(measure->arg, part->what, part->percent);
  int rc = part->measure(one);
  if (rc != WEFT_ERR_UNSUPPORTED)
    return rc;
  size_t used = strlen(missing);
  snprintf(missing + used, cap - used, "%s: %s\n", part->what, weft_last_error());
  return 0;
}

int limits_measure_all(struct limits *limits, const struct limits_measure *measure, char *missing, size_t cap) {
  struct limits_try one = {.limits = limits, .measure = measure, .slice_ns = slice_of(limits, measure)};
  missing[0] = '\0';
  int rc = check_path(measure->path);
  if (rc == 0)
    rc = limits_know_gpus(limits);
  if (rc == 0)
    limits_table_drop(&limits->table, LIMITS_COPY); // their sizes follow the memory that is free
  for (size_t i = 0; i < sizeof parts / sizeof *parts && rc == 0; i++) {
    rc = limits_check_stopped(&one);
    if (rc == 0)
      rc = run_part(&one, &parts[i], missing, cap);
  }
  if (rc == 0 && measure->progress)
    measure->progress(measure->arg, "", 100);
  return rc;
}

// Bounds described by the hardware are not kept; they are read each time.
int limits_keep(struct limits *limits) {
  struct limits_table measured = {0};
  int rc = limits_kept_path(&limits->hardware, true, limits->path);
  for (uint32_t i = 0; i < limits->table.count && rc == 0; i++)
    if (limits->table.list[i].measured)
      rc = limits_table_add(&measured, &limits->table.list[i]);
  if (rc == 0)
    rc = limits_kept_save(limits->path, &limits->hardware, &measured);
  limits_table_free(&measured);
  if (rc == 0)
    snprintf(limits->origin, sizeof limits->origin, "measured now, and kept in %.400s", limits->path);
  else
    snprintf(limits->origin, sizeof limits->origin, "measured now, and not kept");
  return rc;
}
