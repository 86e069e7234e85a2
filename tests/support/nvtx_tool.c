// A profiler for tests that NVTX loads. It writes a line for each start and end of a range to the file that
// WEFT_TEST_RANGES names: "PID start ID BYTES DOMAIN NAME" or "PID end ID".
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

enum { MAX_NAMES = 64 };

static char domain_name[64];
static char names[MAX_NAMES][64]; // registered names; a handle is the address
static uint32_t num_names;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t next_range = 1;
static int file = -1;

__attribute__((format(printf, 1, 2))) static void print_event(const char *format, ...) {
  char line[256];
  va_list list;
  int size = snprintf(line, sizeof line, "%d ", (int)getpid());
  va_start(list, format);
  size += vsnprintf(line + size, sizeof line - (size_t)size, format, list);
  va_end(list);
  if (write(file, line, (size_t)size) != size) // one call, so that lines of several processes do not mix
    abort();
}

static nvtxDomainHandle_t create_domain(const char *name) {
  snprintf(domain_name, sizeof domain_name, "%s", name);
  return (nvtxDomainHandle_t)(uintptr_t)domain_name;
}

static nvtxStringHandle_t register_string(nvtxDomainHandle_t domain, const char *text) {
  char *found = NULL;
  (void)domain;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < num_names && !found; i++)
    if (strcmp(names[i], text) == 0)
      found = names[i];
  if (!found && num_names < MAX_NAMES) {
    found = names[num_names++];
    snprintf(found, sizeof names[0], "%s", text);
  }
  pthread_mutex_unlock(&lock);
  return (nvtxStringHandle_t)(uintptr_t)found;
}

static nvtxRangeId_t start_range(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes) {
  uint64_t id = atomic_fetch_add(&next_range, 1);
  bool registered = attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
  const char *name = registered ? (const char *)(uintptr_t)attributes->message.registered : attributes->message.ascii;
  print_event("start %" PRIu64 " %" PRIu64 " %s %s\n", id, attributes->payload.ullValue,
              (const char *)(uintptr_t)domain, name);
  return id;
}

static void end_range(nvtxDomainHandle_t domain, nvtxRangeId_t id) {
  (void)domain;
  print_event("end %" PRIu64 "\n", id);
}

// NVTX looks for this entry. Returns 1: attached.
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
  const NvtxExportTableCallbacks *callbacks = tables(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = NULL;
  unsigned size = 0;
  const char *path = getenv("WEFT_TEST_RANGES");
  file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
  if (file < 0 || !callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
      size <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
  *table[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)register_string;
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)start_range;
  *table[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)end_range;
  return 1;
}
