// The conformance suite: what every kind of store must do in the same way.
#include "conformance/kind.h"
#include "conformance/suite.h"

int main(void) {
  if (!kind.start())
    return 1;
  int failed = suite_run_kv() + suite_run_txn() + suite_run_lease() + suite_run_watch() + suite_run_threads() +
               suite_run_endings();
  kind.stop();
  return failed ? 1 : 0;
}
