// The other libraries that the tool and its plug-ins load. Each gives its version by a call that does nothing else, so
// neither a child process (library/ask.h) nor their headers are needed.
#include "doctor/library/library.h"

#include "base/text/text.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void version_fn(void *symbol, void *library, char out[DOCTOR_NAME]);

// "7.88.1", or libcurl's "libcurl/7.88.1 OpenSSL/3.0.17 ...".
static void take_text(const char *text, char out[DOCTOR_NAME]) {
  const char *slash = strchr(text, '/');
  text = slash ? slash + 1 : text;
  snprintf(out, DOCTOR_NAME, "%.*s", (int)strcspn(text, " "), text);
}

static void by_text(void *symbol, void *library, char out[DOCTOR_NAME]) {
  const char *(*version)(void);
  (void)library;
  memcpy(&version, &symbol, sizeof version);
  take_text(version(), out);
}

static void by_openssl(void *symbol, void *library, char out[DOCTOR_NAME]) {
  enum { VERSION_STRING = 6 }; // OPENSSL_VERSION_STRING
  const char *(*version)(int);
  (void)library;
  memcpy(&version, &symbol, sizeof version);
  take_text(version(VERSION_STRING), out);
}

static void by_hwloc(void *symbol, void *library, char out[DOCTOR_NAME]) {
  unsigned (*version)(void);
  (void)library;
  memcpy(&version, &symbol, sizeof version);
  snprintf(out, DOCTOR_NAME, "API %u.%u", version() >> 16, version() >> 8 & 0xff); // hwloc gives no other version
}

static void by_liburing(void *symbol, void *library, char out[DOCTOR_NAME]) {
  int (*major)(void), (*minor)(void);
  void *second = dlsym(library, "io_uring_minor_version");
  if (!second)
    return;
  memcpy(&major, &symbol, sizeof major);
  memcpy(&minor, &second, sizeof minor);
  snprintf(out, DOCTOR_NAME, "%d.%d", major(), minor());
}

static const struct {
  const char *name, *file, *call;
  version_fn *version;
  const char *older; // the version of a library that lacks the call; "": unknown
  const char *purpose, *package;
} rows[] = {
    {"jansson", "libjansson.so.4", "jansson_version_str", by_text, "2.12 or older", "JSON", "libjansson4"},
    {"libcurl", "libcurl.so.4", "curl_version", by_text, "", "stores and objects", "libcurl4"},
    {"OpenSSL", "libcrypto.so.3", "OpenSSL_version", by_openssl, "", "TLS and signatures", "libssl3"},
    {"libmicrohttpd", "libmicrohttpd.so.12", "MHD_get_version", by_text, "", "the embedded store", "libmicrohttpd12"},
    {"hwloc", "libhwloc.so.15", "hwloc_get_api_version", by_hwloc, "", "topology", "libhwloc15"},
    {"liburing", "liburing.so.2", "io_uring_major_version", by_liburing, "2.3 or older", "files by io_uring",
     "liburing2"},
};
_Static_assert(sizeof rows / sizeof *rows == DOCTOR_LIBRARIES, "each library has its facts");

static void ask(size_t i, struct doctor_loaded *loaded) {
  *loaded = (struct doctor_loaded){.name = rows[i].name, .purpose = rows[i].purpose, .package = rows[i].package};
  void *library = dlopen(rows[i].file, RTLD_LAZY | RTLD_LOCAL);
  if (!library)
    return;
  void *symbol = dlsym(library, rows[i].call);
  if (symbol)
    rows[i].version(symbol, library, loaded->version);
  if (!*loaded->version)
    snprintf(loaded->version, sizeof loaded->version, "%s", *rows[i].older ? rows[i].older : "of unknown version");
  dlclose(library);
}

void doctor_gather_libraries(struct doctor_loaded loaded[DOCTOR_LIBRARIES]) {
  for (size_t i = 0; i < DOCTOR_LIBRARIES; i++)
    ask(i, &loaded[i]);
}

void doctor_judge_libraries(const struct doctor_facts *facts, struct doctor_report *report) {
  struct text all = {0};
  for (size_t i = 0; i < DOCTOR_LIBRARIES; i++) {
    const struct doctor_loaded *one = &facts->libraries[i];
    if (*one->version) {
      text_add(&all, "%s%s %s", all.size ? ", " : "", one->name, one->version);
      continue;
    }
    doctor_find(report, DOCTOR_NOTE, "%s cannot be loaded", one->name);
    doctor_means(report, "a build that uses it (for %s) does not start here, or works without it", one->purpose);
    doctor_fix(report, "install it (package %s)", one->package);
  }
  char *text = text_take(&all);
  doctor_find(report, DOCTOR_OK, "%s", text && *text ? text : "none of these libraries can be loaded");
  free(text);
}
