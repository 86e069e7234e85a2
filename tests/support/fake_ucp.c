// A fake libucp that has only a version: the version of Debian 13, for which Weft does without a feature.
__attribute__((visibility("default"))) const char *ucp_get_version_string(void);

const char *ucp_get_version_string(void) {
  return "1.18.1";
}
