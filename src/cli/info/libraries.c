// The versions of the libraries on this host, and their functions that Weft avoids, for `weft info`.
#include "cli/info/facts.h"

#include "base/avoided.h"
#include "doctor/library/library.h"

enum { TIMEOUT_MS = 3000 };

static json_t *avoided(const char *name, const char *version) {
  json_t *list = json_array();
  for (const struct avoided *row = NULL; (row = avoided_next(name, version, row));)
    json_array_append_new(list,
                          json_pack("{s:s, s:s, s:s}", "what", row->what, "why", row->why, "instead", row->instead));
  return list;
}

static void add(json_t *list, const char *name, const char *version, const char *purpose) {
  json_array_append_new(list, json_pack("{s:s, s:o, s:s, s:o}", "name", name, "version",
                                        *version ? json_string(version) : json_null(), "for", purpose, "avoided",
                                        avoided(name, version)));
}

json_t *cli_info_libraries(void) {
  struct doctor_library_facts ucx = {0}, ofi = {0};
  struct doctor_loaded loaded[DOCTOR_LIBRARIES];
  json_t *list = json_array();
  doctor_gather_ucx(&ucx, TIMEOUT_MS);
  doctor_gather_ofi(&ofi, TIMEOUT_MS);
  doctor_gather_libraries(loaded);
  for (size_t i = 0; i < DOCTOR_LIBRARIES; i++)
    add(list, loaded[i].name, loaded[i].version, loaded[i].purpose);
  add(list, "UCX", ucx.version, "the transport ucx");
  add(list, "libfabric", ofi.version, "the transport ofi");
  return list;
}
