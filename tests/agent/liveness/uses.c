// What a network library has chosen for a peer: `test_agent_uses TRANSPORT WORD`, where WORD begins the choice.
#include <stdio.h>
#include <string.h>

#include "cmocka_all.h"

#include "agent/support/pair.h"

static const char *transport, *word;
static struct pair pair;

static void test_peer_info_has_it(void **state) {
  (void)state;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  struct weft_peer_info info = WEFT_PEER_INFO_INIT;
  char begins[64];
  snprintf(begins, sizeof begins, "%s %s", transport, word);
  pair_open(&pair, transport, NULL, &options);
  assert_int_equal(weft_agent_peer(pair.a.agent, pair.a.peer, &info), 0);
  assert_int_equal(strncmp(info.uses, begins, strlen(begins)), 0);
  assert_non_null(strchr(info.uses + strlen(begins), ' ')); // a device follows
  assert_null(strchr(info.uses, '['));                      // nothing else of UCX's description
  assert_int_equal(weft_agent_invalidate(pair.a.agent, pair.a.peer), 0);
  assert_int_equal(weft_agent_peer(pair.a.agent, pair.a.peer, &info), 0);
  assert_string_equal(info.uses, "");
  pair_close(&pair);
}

static void test_shared_memory_has_no_library(void **state) {
  (void)state;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  struct weft_peer_info info = WEFT_PEER_INFO_INIT;
  pair_open(&pair, "shm", NULL, &options);
  memset(info.uses, 'x', sizeof info.uses);
  assert_int_equal(weft_agent_peer(pair.a.agent, pair.a.peer, &info), 0);
  assert_string_equal(info.uses, "");
  pair_close(&pair);
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  transport = argv[1], word = argv[2];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_peer_info_has_it),
      cmocka_unit_test(test_shared_memory_has_no_library),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
