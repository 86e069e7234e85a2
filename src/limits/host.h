// The table of a host, and its sources.
#ifndef LIMITS_HOST_H
#define LIMITS_HOST_H

#include "limits/hardware/hardware.h"
#include "limits/kept.h"
#include "limits/table/table.h"
#include "measure/figures.h"

// Where to look for files; only tests set the members.
struct limits_places {
  const char *root; // where sys/, proc/ and etc/ are
  const char *nvml; // the file of NVML
  // The PCI address of a GPU by the index that this process has for it, as sysfs writes it. False: it is not known.
  bool (*gpu_address)(uint32_t gpu, char address[16]);
};

struct limits {
  struct limits_places places;
  struct limits_hardware hardware;
  struct limits_table table;
  bool kept;            // the table has measurements
  bool gpus_described;  // GPUs are asked only if a route ends at one
  char path[KEPT_PATH]; // of the kept file; "": there is no place for one
  char when[KEPT_TIME];
  char origin[512];
};

// limits_open() that uses other places.
int limits_open_at(struct limits **limits, const struct limits_places *places);

// Adds the bounds that GPUs report; only the first call does anything. NOMEM.
int limits_know_gpus(struct limits *limits);

// Adds a row and a bound for each entry to a document of the kind "limits". NOMEM.
int limits_to_figures(const struct limits *limits, struct figures *figures);

#endif
