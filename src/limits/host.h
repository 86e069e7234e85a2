// The table of a host, and what it was made from.
#ifndef LIMITS_HOST_H
#define LIMITS_HOST_H

#include "limits/hardware/hardware.h"
#include "limits/kept.h"
#include "limits/table/table.h"
#include "measure/figures.h"

// Where to look: all NULL but in tests.
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
  bool kept;            // measurements are among it
  bool gpus_described;  // GPUs are asked only where a route ends at one
  char path[KEPT_PATH]; // of the kept file; "": there is no place for one
  char when[KEPT_TIME];
  char origin[512];
};

// limits_open() that looks elsewhere.
int limits_open_at(struct limits **limits, const struct limits_places *places);

// Adds what GPUs say of themselves, once. NOMEM.
int limits_know_gpus(struct limits *limits);

// Adds a row and a bound for each entry to a document of the kind "limits". NOMEM.
int limits_to_figures(const struct limits *limits, struct figures *figures);

#endif
