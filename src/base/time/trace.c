// Ranges for profilers by NVTX, which consists of headers only.
#include "base/time/trace.h"

#include <pthread.h>
#include <sys/auxv.h>

#include <nvtx3/nvToolsExt.h>

void *trace_domain;

static pthread_once_t once = PTHREAD_ONCE_INIT;

// NVTX loads the file that the environment names, so it is not used in a program that has more rights than its caller.
static void open_domain(void) {
  if (getauxval(AT_SECURE))
    return;
  trace_domain = nvtxDomainCreateA("weft");
}

void trace_open(void) {
  pthread_once(&once, open_domain);
}

// Two threads may request the handle at once: they get the same one, or two with the same meaning.
static const void *handle_of(struct trace_name *name) {
  const void *handle = atomic_load_explicit(&name->handle, memory_order_acquire);
  if (!handle) {
    handle = nvtxDomainRegisterStringA(trace_domain, name->text);
    atomic_store_explicit(&name->handle, handle, memory_order_release);
  }
  return handle;
}

uint64_t trace_start(struct trace_name *name, uint64_t bytes) {
  nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
                                      .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                      .payloadType = bytes ? NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 : NVTX_PAYLOAD_UNKNOWN,
                                      .payload.ullValue = bytes};
  const void *handle = handle_of(name);
  attributes.messageType = handle ? NVTX_MESSAGE_TYPE_REGISTERED : NVTX_MESSAGE_TYPE_ASCII;
  if (handle)
    attributes.message.registered = (nvtxStringHandle_t)(uintptr_t)handle;
  else
    attributes.message.ascii = name->text;
  return nvtxDomainRangeStartEx(trace_domain, &attributes);
}

void trace_stop(uint64_t range) {
  nvtxDomainRangeEnd(trace_domain, range);
}
