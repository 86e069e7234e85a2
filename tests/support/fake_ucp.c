// A libucp of the tests that tells a version and nothing else: of Debian 13, for which Weft does without something.
__attribute__((visibility("default"))) const char *ucp_get_version_string(void);

const char *ucp_get_version_string(void) {
  return "1.18.1";
}
