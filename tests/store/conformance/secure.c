// The client and an etcd that authenticates it: users and passwords, certificates.
#include "conformance/suite.h"
#include "support/etcd.h"
#include "support/events.h"
#include "support/relay.h"
#include "support/temporary.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *url;

static weft_store_t *open_at(const char *endpoints, const char *user, const char *password,
                             uint32_t request_timeout_ms) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store = NULL;
  options.endpoints = endpoints;
  options.user = user;
  options.password = password;
  options.request_timeout_ms = request_timeout_ms;
  assert_ok(weft_store_open(&store, &options));
  return store;
}

static weft_store_t *open_as(const char *user, const char *password) {
  return open_at(url, user, password, 30000);
}

static void post(const char *path, const char *body) {
  assert_true(support_etcd_post(url, path, body));
}

// A user root, and a user rank who may do as he likes under /weft/.
static void enable_users(void) {
  post("/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"secret\"}");
  post("/v3/auth/role/add", "{\"name\":\"root\"}");
  post("/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
  post("/v3/auth/user/add", "{\"name\":\"rank\",\"password\":\"quote\\\"s\"}");
  post("/v3/auth/role/add", "{\"name\":\"ranks\"}");
  // "/weft/" to "/weft0"
  post("/v3/auth/role/grant",
       "{\"name\":\"ranks\",\"perm\":{\"permType\":\"READWRITE\",\"key\":\"L3dlZnQv\",\"range_end\":\"L3dlZnQw\"}}");
  post("/v3/auth/user/grant", "{\"user\":\"rank\",\"role\":\"ranks\"}");
  post("/v3/auth/enable", "{}");
}

static int start_with_users(void **state) {
  struct support_etcd *etcd = test_calloc(1, sizeof *etcd);
  if (!support_etcd_start(etcd))
    return -1;
  url = etcd->url;
  enable_users();
  *state = etcd;
  return 0;
}

static int stop_etcd(void **state) {
  support_etcd_stop(*state);
  test_free(*state);
  return 0;
}

static void a_user_may_do_what_his_role_grants(void **state) {
  (void)state;
  struct support_events events;
  struct weft_store_list *list;
  weft_store_watch_t *watch;
  weft_store_t *store = open_as("rank", "quote\"s");
  support_events_init(&events);
  assert_ok(weft_store_watch_open(store, "/weft/u/", 0, support_events_take, &events, &watch));
  suite_put(store, "/weft/u/a", "1", 0);
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, 1));
  assert_fails(WEFT_ERR_AUTH, weft_store_range(store, "/other", false, 0, &list));
  assert_non_null(strstr(weft_last_error(), "permission denied"));
  weft_store_watch_t *refused;
  assert_fails(WEFT_ERR_AUTH, weft_store_watch_open(store, "/other/", 0, support_events_take, &events, &refused));
  weft_store_watch_close(watch);
  weft_store_close(store);
  support_events_free(&events);
}

static void a_wrong_password_is_refused_with_advice(void **state) {
  (void)state;
  struct weft_store_list *list;
  weft_store_watch_t *watch;
  weft_store_t *store = open_as("root", "wrong");
  assert_fails(WEFT_ERR_AUTH, weft_store_range(store, "/weft/", true, 0, &list));
  assert_non_null(strstr(weft_last_error(), "check the store user and password"));
  assert_fails(WEFT_ERR_AUTH, weft_store_watch_open(store, "/weft/", 0, support_events_take, NULL, &watch));
  weft_store_close(store);
}

static void no_user_is_asked_for_one(void **state) {
  (void)state;
  weft_store_t *store = open_as(NULL, NULL);
  assert_fails(WEFT_ERR_AUTH, weft_store_put(store, "/weft/a", "1", 1, 0, NULL));
  assert_non_null(strstr(weft_last_error(), "requires a user"));
  weft_store_close(store);
}

static void a_token_that_etcd_forgot_is_asked_for_again(void **state) {
  struct support_events events;
  weft_store_watch_t *watch;
  weft_store_t *store = open_as("root", "secret");
  support_events_init(&events);
  assert_ok(weft_store_watch_open(store, "/weft/t/", 0, support_events_take, &events, &watch));
  suite_put(store, "/weft/t/a", "1", 0);
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, 1));
  assert_true(support_etcd_restart(*state, true)); // it keeps its users but not its tokens
  int64_t revision = suite_put(store, "/weft/t/a", "2", 0);
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, 2));
  assert_int_equal(support_events_get(&events, WEFT_STORE_EVENT_PUT, 1).revision, revision);
  weft_store_watch_close(watch);
  weft_store_close(store);
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_RESET), 0);
  support_events_free(&events);
}

// It does not take the whole time of a put that was not sent yet.
static void a_token_comes_from_the_next_endpoint_if_the_first_is_silent(void **state) {
  const struct support_etcd *etcd = *state;
  char endpoints[128];
  struct support_relay *relay = support_relay_start(etcd->port);
  assert_non_null(relay);
  support_relay_hold(relay, true);
  snprintf(endpoints, sizeof endpoints, "http://127.0.0.1:%u,%s", support_relay_port(relay), url);
  weft_store_t *store = open_at(endpoints, "root", "secret", 8000);
  suite_put(store, "/weft/s/a", "1", 0);
  weft_store_close(store);
  support_relay_stop(relay);
}

struct tls {
  struct support_etcd etcd;
  char directory[96], key[128], certificate[128];
  const char *extra[12];
};

// One certificate, signed by itself, serves as the authority, the server's and the client's.
static int start_with_tls(void **state) {
  struct tls *tls = test_calloc(1, sizeof *tls);
  char command[512];
  support_temporary(tls->directory, sizeof tls->directory, "weft-tls");
  assert_non_null(mkdtemp(tls->directory));
  snprintf(tls->key, sizeof tls->key, "%s/key.pem", tls->directory);
  snprintf(tls->certificate, sizeof tls->certificate, "%s/certificate.pem", tls->directory);
  snprintf(command, sizeof command,
           "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=weft-test "
           "-addext subjectAltName=IP:127.0.0.1 -keyout %s -out %s 2>/dev/null",
           tls->key, tls->certificate);
  if (system(command) != 0)
    fail_msg("openssl made no certificate");
  const char *extra[] = {"--cert-file",        tls->certificate,    "--key-file",     tls->key,
                         "--client-cert-auth", "--trusted-ca-file", tls->certificate, NULL};
  memcpy(tls->extra, extra, sizeof extra);
  tls->etcd.extra = tls->extra;
  tls->etcd.scheme = "https";
  *state = tls;
  url = tls->etcd.url;
  return support_etcd_start(&tls->etcd) ? 0 : -1;
}

static int stop_tls(void **state) {
  struct tls *tls = *state;
  support_etcd_stop(&tls->etcd);
  unlink(tls->key);
  unlink(tls->certificate);
  rmdir(tls->directory);
  test_free(tls);
  return 0;
}

static weft_store_t *open_tls(const char *authority, const char *certificate, const char *key) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store = NULL;
  options.endpoints = url;
  options.ca_file = authority;
  options.cert_file = certificate;
  options.key_file = key;
  options.request_timeout_ms = 30000;
  assert_ok(weft_store_open(&store, &options));
  return store;
}

static void certificates_on_both_sides_make_a_connection(void **state) {
  struct tls *tls = *state;
  struct support_events events;
  weft_store_watch_t *watch;
  weft_store_t *store = open_tls(tls->certificate, tls->certificate, tls->key);
  support_events_init(&events);
  assert_ok(weft_store_watch_open(store, "/tls/", 0, support_events_take, &events, &watch));
  suite_put(store, "/tls/a", "1", 0);
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, 1));
  weft_store_watch_close(watch);
  weft_store_close(store);
  support_events_free(&events);
}

static void an_unknown_authority_is_refused_with_advice(void **state) {
  struct tls *tls = *state;
  struct weft_store_list *list;
  weft_store_t *store = open_tls(NULL, tls->certificate, tls->key);
  assert_fails(WEFT_ERR_AUTH, weft_store_range(store, "/tls/", true, 0, &list));
  assert_non_null(strstr(weft_last_error(), "give the CA"));
  weft_store_close(store);
}

static void a_missing_client_certificate_is_an_error(void **state) {
  struct tls *tls = *state;
  struct weft_store_list *list;
  weft_store_t *store = open_tls(tls->certificate, NULL, NULL);
  int err = weft_store_range(store, "/tls/", true, 0, &list);
  assert_true(err == WEFT_ERR_AUTH || err == WEFT_ERR_UNREACHABLE);
  assert_non_null(strstr(weft_last_error(), "certificate"));
  weft_store_close(store);
}

int main(void) {
  const struct CMUnitTest users[] = {
      cmocka_unit_test(a_user_may_do_what_his_role_grants),
      cmocka_unit_test(a_wrong_password_is_refused_with_advice),
      cmocka_unit_test(no_user_is_asked_for_one),
      cmocka_unit_test(a_token_that_etcd_forgot_is_asked_for_again),
      cmocka_unit_test(a_token_comes_from_the_next_endpoint_if_the_first_is_silent),
  };
  const struct CMUnitTest certificates[] = {
      cmocka_unit_test(certificates_on_both_sides_make_a_connection),
      cmocka_unit_test(an_unknown_authority_is_refused_with_advice),
      cmocka_unit_test(a_missing_client_certificate_is_an_error),
  };
  support_etcd_require();
  return cmocka_run_group_tests(users, start_with_users, stop_etcd) +
         cmocka_run_group_tests(certificates, start_with_tls, stop_tls);
}
