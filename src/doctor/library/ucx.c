// UCX: its version and its transports. No header of it is needed: this file declares the functions that it calls, which
// are the same in every version 1.
#include "doctor/library/library.h"

#include "base/text/text.h"
#include "doctor/library/ask.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

// The beginning of ucp_params_t; its mask shows that no later field is set.
struct ucp_params {
  uint64_t field_mask; // UCP_PARAM_FIELD_FEATURES
  uint64_t features;
  char rest[240];
};
enum { FIELD_FEATURES = 1 << 0, FEATURE_RMA = 1 << 1, FEATURE_AM = 1 << 6, API_MAJOR = 1, API_MINOR = 10 };

typedef void *context;

static void *find(void *library, const char *name, FILE *out) {
  void *symbol = dlsym(library, name);
  if (!symbol)
    fprintf(out, "missing it has no %s\n", name);
  return symbol;
}

// A line of ucp_context_print_info() says "resource 1 : md 1 dev 1 flags -- tcp/eth0".
static void write_resource(const char *line, FILE *out) {
  const char *name = strstr(line, "resource") ? strstr(line, "-- ") : NULL;
  if (name)
    fprintf(out, "transport %.*s\n", (int)strcspn(name + 3, " \n"), name + 3);
}

static void write_transports(void *library, FILE *out) {
  int (*init)(unsigned, unsigned, const struct ucp_params *, const void *, context *);
  void (*print)(context, FILE *);
  void *symbols[] = {find(library, "ucp_init_version", out), find(library, "ucp_context_print_info", out)};
  if (!symbols[0] || !symbols[1])
    return;
  memcpy(&init, &symbols[0], sizeof init);
  memcpy(&print, &symbols[1], sizeof print);
  const struct ucp_params params = {.field_mask = FIELD_FEATURES, .features = FEATURE_RMA | FEATURE_AM};
  context ucp = NULL;
  if (init(API_MAJOR, API_MINOR, &params, NULL, &ucp) != 0)
    return;
  char *text = NULL, *rest = NULL;
  size_t size = 0;
  FILE *info = open_memstream(&text, &size);
  if (!info)
    return;
  print(ucp, info);
  fclose(info);
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
    write_resource(line, out);
  free(text);
}

static void ask(FILE *out) {
  void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(out, "missing %s\n", dlerror());
    return;
  }
  const char *(*version)(void);
  void *symbol = find(library, "ucp_get_version_string", out);
  if (!symbol)
    return;
  memcpy(&version, &symbol, sizeof version);
  fprintf(out, "version %s\n", version());
  fflush(out);
  write_transports(library, out);
}

void doctor_gather_ucx(struct doctor_library_facts *facts, uint32_t timeout_ms) {
  doctor_ask_library(facts, ask, timeout_ms);
}

void doctor_judge_ucx(const struct doctor_facts *facts, struct doctor_report *report) {
  static const struct doctor_library_words words = {"UCX", "libucx0, or ucx on other distributions",
                                                    "the transport ucx is not available"};
  doctor_judge_library(&facts->ucx, &words, report);
}
