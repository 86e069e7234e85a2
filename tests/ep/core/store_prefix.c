// Groups and agents without a key prefix are refused on a store that other jobs may share.
#include <string.h>

#include <weft/weft.h>

#include "cmocka_all.h"

enum { SOON_MS = 10000 };

static void expect_refused(int err) {
  assert_int_equal(err, WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "no prefix is given, but other jobs use the store"));
  assert_non_null(strstr(weft_last_error(), "\"/JOB/\""));
}

static struct weft_ep_options small(weft_store_t *store) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.rank = 0;
  options.capacity = 2;
  options.hidden = 128;
  options.max_tokens = 4;
  options.topk = 2;
  return options;
}

// Two jobs, each of a rank 0: with one prefix they would be one group, whose second rank 0 takes the place of the
// first.
static void jobs_on_one_store_have_to_name_their_groups(void **state) {
  (void)state;
  struct weft_store_server_options serve = WEFT_STORE_SERVER_OPTIONS_INIT;
  struct weft_store_options in = WEFT_STORE_OPTIONS_INIT;
  weft_store_server_t *server;
  weft_store_t *stores[2];
  weft_ep_t *eps[2];
  serve.flags = WEFT_STORE_SERVER_INSECURE;
  int err = weft_store_server_start(&server, &serve);
  if (err == WEFT_ERR_UNSUPPORTED)
    skip(); // built without libmicrohttpd
  assert_int_equal(err, 0);
  in.endpoints = weft_store_server_url(server);
  for (int job = 0; job < 2; job++) {
    assert_int_equal(weft_store_open(&stores[job], &in), 0);
    struct weft_ep_options options = small(stores[job]);
    expect_refused(weft_ep_open(&eps[job], &options, SOON_MS));
    options.prefix = job ? "/one/" : "/another/";
    assert_int_equal(weft_ep_open(&eps[job], &options, SOON_MS), 0);
  }
  struct weft_agent_options agent_options = WEFT_AGENT_OPTIONS_INIT;
  weft_agent_t *agent = NULL;
  agent_options.name = "one";
  agent_options.store = stores[0];
  expect_refused(weft_agent_open(&agent, &agent_options));
  agent_options.prefix = "/one/";
  assert_int_equal(weft_agent_open(&agent, &agent_options), 0);
  weft_agent_close(agent);
  for (int job = 0; job < 2; job++) {
    weft_ep_close(eps[job]);
    weft_store_close(stores[job]);
  }
  weft_store_server_stop(server);
}

static void a_store_of_this_process_needs_no_prefix(void **state) {
  (void)state;
  weft_store_t *store;
  weft_ep_t *ep;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options = small(store);
  assert_int_equal(weft_ep_open(&ep, &options, SOON_MS), 0);
  weft_ep_close(ep);
  weft_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jobs_on_one_store_have_to_name_their_groups),
      cmocka_unit_test(a_store_of_this_process_needs_no_prefix),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
