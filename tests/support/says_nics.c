// A plug-in for the transport ofi whose workers do not open, but report their settings as the error.
#include "base/fail.h"
#include "transport/transport.h"

static int probe(char *why, size_t cap) {
  (void)why, (void)cap;
  return 0;
}

static int open_worker(const struct transport_options *options, struct transport_worker **worker) {
  (void)worker;
  const char *first = options->settings ? options->settings[0] : NULL;
  return fail(WEFT_ERR_UNSUPPORTED, "opened with [%s]", first ? first : "");
}

extern const struct transport transport_ofi;
const struct transport transport_ofi = {
    .name = "ofi",
    .what = "a fake",
    .abilities = {.local_kinds = 1u << WEFT_MEMORY_HOST,
                  .remote_kinds = 1u << WEFT_MEMORY_HOST,
                  .flags = TRANSPORT_MESSAGES | TRANSPORT_OTHER_HOSTS | TRANSPORT_LENGTHS},
    .probe = probe,
    .open = open_worker,
};
