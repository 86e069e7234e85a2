// The core's results as errors of Weft, and as gRPC status and text of etcd.
#include "store/core/status.h"

static const struct {
  int err;
  int grpc;
  const char *text;
} table[] = {[CORE_OK] = {WEFT_OK, 0, "success"},
#define ROW(name, weft, code, words) [CORE_##name] = {WEFT_ERR_##weft, code, words},
             CORE_STATUS_MAP(ROW)
#undef ROW
};

int core_status_err(enum core_status status) {
  return table[status].err;
}
int core_status_grpc(enum core_status status) {
  return table[status].grpc;
}
const char *core_status_text(enum core_status status) {
  return table[status].text;
}
