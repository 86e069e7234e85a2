// Registered objects and memory of the transport object.
#include <stdlib.h>

#include "base/fail.h"
#include "transport/object/object.h"

void object_region_drop(struct storage_region *base) {
  struct object_region *region = (struct object_region *)base;
  free(region->url);
  free(region);
}

int object_reg(struct transport_worker *base, const struct transport_memory *memory, struct transport_region **out) {
  struct object_worker *worker = (struct object_worker *)base;
  if (memory->kind != WEFT_MEMORY_HOST && memory->kind != WEFT_MEMORY_OBJECT)
    return fail(WEFT_ERR_UNSUPPORTED, "the transport object moves bytes between host memory and objects only");
  struct object_region *region = calloc(1, sizeof *region);
  if (!region)
    return fail(WEFT_ERR_NOMEM, "out of memory for a region");
  int rc = memory->kind == WEFT_MEMORY_OBJECT ? object_url(&worker->set, memory->path, &region->url) : 0;
  if (rc < 0) {
    free(region);
    return rc;
  }
  storage_region_add(&worker->base, memory, &region->base);
  *out = &region->base.base;
  return 0;
}

void object_unreg(struct transport_region *base) {
  struct storage_region *region = (struct storage_region *)base;
  region->gone = true;
  region->base.memory.path = NULL; // the caller's
  if (storage_region_put(region))
    object_region_drop(region);
}

void object_release(struct transport_remote *remote) {
  struct storage_region *region = storage_remote_free(remote);
  if (storage_region_put(region))
    object_region_drop(region);
}
