// libfabric: its version and its providers. No header of it is needed: this file declares the beginnings of its
// structs, which are part of the ABI of libfabric.so.1.
#include "doctor/library/library.h"

#include "doctor/library/ask.h"

#include <dlfcn.h>
#include <string.h>

struct fi_fabric_attr {
  void *fabric;
  char *name, *prov_name;
};

struct fi_info {
  struct fi_info *next;
  uint64_t caps, mode;
  uint32_t addr_format;
  size_t src_addrlen, dest_addrlen;
  void *src_addr, *dest_addr, *handle, *tx_attr, *rx_attr, *ep_attr, *domain_attr;
  struct fi_fabric_attr *fabric_attr;
};

#define VERSION(major, minor) ((uint32_t)(major) << 16 | (minor))

enum { PROVIDERS = 64 };

// libfabric lists a provider many times, once for each way to use it.
static void write_providers(const struct fi_info *list, FILE *out) {
  const char *seen[PROVIDERS];
  size_t count = 0;
  for (const struct fi_info *at = list; at && count < PROVIDERS; at = at->next) {
    const char *name = at->fabric_attr ? at->fabric_attr->prov_name : NULL;
    bool known = !name;
    for (size_t i = 0; i < count && !known; i++)
      known = strcmp(seen[i], name) == 0;
    if (known)
      continue;
    seen[count++] = name;
    fprintf(out, "transport %s\n", name);
  }
}

static void ask(FILE *out) {
  void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(out, "missing %s\n", dlerror());
    return;
  }
  uint32_t (*version)(void);
  int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
  void *symbols[] = {dlsym(library, "fi_version"), dlsym(library, "fi_getinfo")};
  if (!symbols[0] || !symbols[1]) {
    fprintf(out, "missing it has no fi_getinfo\n");
    return;
  }
  memcpy(&version, &symbols[0], sizeof version);
  memcpy(&getinfo, &symbols[1], sizeof getinfo);
  uint32_t number = version();
  fprintf(out, "version %u.%u\n", number >> 16, number & 0xffff);
  fflush(out);
  struct fi_info *list = NULL;
  if (getinfo(VERSION(1, 9), NULL, NULL, 0, NULL, &list) == 0)
    write_providers(list, out);
}

void doctor_gather_ofi(struct doctor_library_facts *facts, uint32_t timeout_ms) {
  doctor_ask_library(facts, ask, timeout_ms);
}

void doctor_judge_ofi(const struct doctor_facts *facts, struct doctor_report *report) {
  static const struct doctor_library_words words = {"libfabric", "libfabric1, or libfabric on other distributions",
                                                    "the transport ofi is not available"};
  doctor_judge_library(&facts->ofi, &words, report);
}
