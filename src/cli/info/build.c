// The build's compiler, options and libraries, for `weft info`.
#include "cli/info/facts.h"

#include "cli/info/build.h"

static json_t *library(const char *name, const char *version, const char *purpose) {
  return json_pack("{s:s, s:o, s:s}", "name", name, "version", *version ? json_string(version) : json_null(), "for",
                   purpose);
}

json_t *cli_info_build(void) {
  return json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:[o, o, o, o, o]}", "compiler", CLI_BUILD_COMPILER, "target", CLI_BUILD_TARGET,
      "type", CLI_BUILD_TYPE, "flags", CLI_BUILD_FLAGS, "sanitizers", *CLI_BUILD_SANITIZE ? CLI_BUILD_SANITIZE : "none",
      "libraries", library("jansson", CLI_BUILD_JANSSON, "JSON"), library("libcurl", CLI_BUILD_CURL, "store client"),
      library("libmicrohttpd", CLI_BUILD_MICROHTTPD, "embedded store"),
      library("hwloc", CLI_INFO_BUILD_HWLOC, "topology"), library("NVTX", CLI_INFO_BUILD_NVTX, "ranges for profilers"));
}
