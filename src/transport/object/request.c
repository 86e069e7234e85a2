// Checks and posts requests. lane.c begins their exchanges.
#include <stdlib.h>

#include "base/fail.h"
#include "transport/object/object.h"

static void free_own(struct object_request *own) {
  storage_request_free(&own->base);
  object_plan_free(own);
  free(own);
}

int object_prepare(struct transport_request *request) {
  struct object_worker *worker = (struct object_worker *)request->peer->worker;
  struct object_request *own = calloc(1, sizeof *own);
  if (!own)
    return fail(WEFT_ERR_NOMEM, "out of memory for a request");
  int rc = storage_request_init(request, &own->base);
  if (rc == 0)
    rc = object_plan(own, &worker->set);
  if (rc < 0) {
    free_own(own);
    return rc;
  }
  request->own = own;
  return 0;
}

void object_unprepare(struct transport_request *request) {
  free_own(request->own);
  request->own = NULL;
}

// Exchanges begin in progress(), because libcurl allocates and post() must not.
int object_post(struct transport_request *request) {
  struct object_request *own = request->own;
  int rc = storage_request_begin(request);
  if (rc < 0)
    return rc;
  own->next_target = 0;
  for (uint32_t i = 0; i < own->num_targets; i++) {
    struct object_target *target = &own->targets[i];
    target->next_part = target->parts_done = 0;
    target->opening = target->opened = false;
    target->err = 0;
    target->etag[0] = target->upload[0] = '\0';
  }
  if (own->num_targets == 0)
    storage_request_end(&own->base);
  return 0;
}
