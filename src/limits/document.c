// The table as the document that every benchmark writes.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "limits/host.h"

// Two hosts are compared row by row. Properties of one host, such as a PCI address, are keys; how a figure was found is
// not a key.
static json_t *keys_of(const struct limits_entry *entry) {
  return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "kind", limits_kind_name(entry->kind), "name", entry->name,
                   "device", entry->device, "other", entry->other, "processors", (json_int_t)entry->processors, "bytes",
                   (json_int_t)entry->bytes);
}

static int add_row(struct figures *figures, const struct limits_entry *entry) {
  json_t *keys = keys_of(entry);
  struct figures_row *row = keys ? figures_add_row(figures, keys, 0) : NULL;
  json_decref(keys);
  if (!row || !figures_add(row, "bandwidth", "GB/s", FIGURE_HIGHER, entry->gbps))
    return fail(WEFT_ERR_NOMEM, "no memory for the bounds of this host");
  return figures_add_bound(figures, entry->name, entry->gbps, entry->measured, entry->detail);
}

int limits_to_figures(const struct limits *limits, struct figures *figures) {
  int rc = json_object_set_new(figures->settings, "origin", json_string(limits->origin)) == 0
               ? 0
               : fail(WEFT_ERR_NOMEM, "no memory for the bounds of this host");
  json_t *hardware = limits_hardware_describe(&limits->hardware);
  json_object_del(hardware, "machine"); // people pass documents on
  json_object_set_new(figures->settings, "hardware", hardware);
  for (uint32_t i = 0; i < limits->table.count && rc == 0; i++)
    rc = add_row(figures, &limits->table.list[i]);
  return rc;
}
