// Opens a table: the kept measurements replace the hardware's descriptions.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "device/device.h"
#include "limits/host.h"

// The driver's own numbering, which CUDA_VISIBLE_DEVICES changes.
static bool driver_address(uint32_t gpu, char address[16]) {
  const struct device_api *api;
  struct device_info info = {0};
  char why[DEVICE_WHY];
  if (device_load(&api) != 0 || api->describe((int)gpu, &info, why) != 0)
    return false;
  snprintf(address, 16, "%.15s", info.pci);
  for (char *at = address; *at; at++)
    *at = (char)tolower((unsigned char)*at);
  return true;
}

static void describe_origin(struct limits *limits, int rc) {
  char *out = limits->origin;
  size_t cap = sizeof limits->origin;
  if (rc == 0)
    snprintf(out, cap, "measured at %.31s by 'weft bench limits', and kept in %.300s", limits->when, limits->path);
  else if (rc == WEFT_ERR_NOT_FOUND)
    snprintf(out, cap, "as the hardware describes itself: 'weft bench limits' measures this host");
  else
    snprintf(out, cap,
             "as the hardware describes itself, because the kept bounds are not used: %.300s; 'weft bench limits' "
             "measures again",
             weft_last_error());
}

// Measurements replace descriptions.
static int merge(struct limits_table *into, const struct limits_table *kept) {
  int rc = 0;
  for (uint32_t i = 0; i < kept->count && rc == 0; i++)
    rc = limits_table_add(into, &kept->list[i]);
  return rc;
}

static int load_kept(struct limits *limits) {
  struct limits_table kept = {0};
  int rc = limits_kept_path(&limits->hardware, false, limits->path);
  if (rc == 0)
    rc = limits_kept_load(limits->path, &limits->hardware, &kept, limits->when);
  describe_origin(limits, rc);
  limits->kept = rc == 0;
  rc = rc == WEFT_ERR_NOMEM ? rc : merge(&limits->table, &kept);
  limits_table_free(&kept);
  return rc;
}

int limits_open_at(struct limits **out, const struct limits_places *places) {
  struct limits *limits = calloc(1, sizeof *limits);
  if (!limits)
    return fail(WEFT_ERR_NOMEM, "no memory for the bounds of this host");
  limits->places = *places;
  if (!limits->places.gpu_address)
    limits->places.gpu_address = driver_address;
  int rc = limits_hardware_gather(&limits->hardware, places->root ? places->root : "");
  if (rc == 0)
    rc = limits_describe_host(&limits->hardware, &limits->table);
  if (rc == 0)
    rc = load_kept(limits);
  if (rc != 0)
    limits_close(limits);
  else
    *out = limits;
  return rc;
}

int limits_open(struct limits **limits) {
  return limits_open_at(limits, &(struct limits_places){0});
}

void limits_close(struct limits *limits) {
  if (!limits)
    return;
  limits_table_free(&limits->table);
  limits_hardware_free(&limits->hardware);
  free(limits);
}

const char *limits_origin(const struct limits *limits) {
  return limits->origin;
}

int limits_know_gpus(struct limits *limits) {
  if (limits->gpus_described)
    return 0;
  int rc = limits_describe_gpus(&limits->hardware, limits->places.nvml, &limits->table);
  limits->gpus_described = rc == 0;
  return rc;
}
