// How the client handles malformed answers of a server: each is refused with an error that names the fault, and none
// does harm. The server is a socket that sends what the test wants.
#include "base/log.h"
#include "base/random.h"
#include "conformance/suite.h"
#include "store/client/stream.h"
#include "store/support/scripted.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static weft_store_t *open_on(const char *url) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store = NULL;
  options.endpoints = url;
  options.request_timeout_ms = 30000;
  assert_ok(weft_store_open(&store, &options));
  return store;
}

#define HTTP(status, body) "HTTP/1.1 " status "\r\nConnection: close\r\n\r\n" body
#define LEARNER            "rpc not supported for learner"
#define HEADER             "\"header\":{\"revision\":\"5\"}"

static void answers_to_a_range_are_checked(void **state) {
  (void)state;
  static const struct {
    const char *answer;
    int err;
    const char *word; // of the sentence
  } cases[] = {
      {HTTP("200 OK", "{" HEADER "}"), 0, ""},
      {HTTP("200 OK", "{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"mod_revision\":\"3\"}],\"count\":\"1\"}"), 0, ""},
      {HTTP("200 OK", ""), WEFT_ERR_PROTOCOL, "malformed JSON"},
      {HTTP("200 OK", "{" HEADER), WEFT_ERR_PROTOCOL, "malformed JSON"},
      {HTTP("200 OK", "[]"), WEFT_ERR_PROTOCOL, "object"},
      {HTTP("200 OK", "{}"), WEFT_ERR_PROTOCOL, "revision"},
      {HTTP("200 OK", "{\"header\":[]}"), WEFT_ERR_PROTOCOL, "header"},
      {HTTP("200 OK", "{\"header\":{\"revision\":\"5x\"}}"), WEFT_ERR_PROTOCOL, "revision"},
      {HTTP("200 OK", "{\"header\":{\"revision\":\"9223372036854775808\"}}"), WEFT_ERR_PROTOCOL, "revision"},
      {HTTP("200 OK", "{\"header\":{\"revision\":\"-5\"}}"), WEFT_ERR_PROTOCOL, "revision"},
      {HTTP("200 OK", "{" HEADER ",\"kvs\":{}}"), WEFT_ERR_PROTOCOL, "kvs"},
      {HTTP("200 OK", "{" HEADER ",\"kvs\":[7],\"count\":\"1\"}"), WEFT_ERR_PROTOCOL, "not an object"},
      {HTTP("200 OK", "{" HEADER ",\"kvs\":[{\"mod_revision\":\"3\"}],\"count\":\"1\"}"), WEFT_ERR_PROTOCOL,
       "no bytes"},
      {HTTP("200 OK", "{" HEADER ",\"kvs\":[{\"key\":\"Y*==\",\"mod_revision\":\"3\"}],\"count\":\"1\"}"),
       WEFT_ERR_PROTOCOL, "base64"},
      {HTTP("200 OK", "{" HEADER ",\"kvs\":[{\"key\":\"YQ=\",\"mod_revision\":\"3\"}],\"count\":\"1\"}"),
       WEFT_ERR_PROTOCOL, "base64"},
      {HTTP("200 OK", "{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"mod_revision\":\"3\"}]}"), WEFT_ERR_PROTOCOL,
       "keys of"},
      {HTTP("200 OK", "{" HEADER ",\"more\":1}"), WEFT_ERR_PROTOCOL, "more"},
      {HTTP("404 Not Found", "Not Found"), WEFT_ERR_PROTOCOL, "neither etcd"},
      {HTTP("404 Not Found", "{\"code\":5,\"message\":\"Not Found\"}"), WEFT_ERR_PROTOCOL, "neither etcd"},
      {HTTP("401 Unauthorized", "who are you"), WEFT_ERR_AUTH, "token"},
      {HTTP("503 Unavailable", "later"), WEFT_ERR_UNREACHABLE, "503"},
      {HTTP("500 Internal", "{\"error\":\"x\",\"message\":\"the disk is full\",\"code\":13}"), WEFT_ERR_UNREACHABLE,
       "the disk is full"},
      {HTTP("400 Bad", "{\"error\":\"x\",\"message\":\"no such thing\",\"code\":3}"), WEFT_ERR_INVALID,
       "no such thing"},
      {HTTP("400 Bad", "{ \"code\": 3, \"message\": \"no such thing\", \"details\": []}"), WEFT_ERR_INVALID,
       "no such thing"},
      {HTTP("408 Request Timeout", "{\"code\":1,\"message\":\"grpc: the client connection is closing\"}"),
       WEFT_ERR_UNREACHABLE, "is closing"},
      {HTTP("429 Too Many Requests", "{\"code\":8,\"message\":\"etcdserver: too many requests\"}"),
       WEFT_ERR_UNREACHABLE, "too many requests"},
      // A learner's, by etcd 3.4 and by later ones; the last two as answers of streams, of which a keepalive is one.
      {HTTP("503 Unavailable", "{\"code\":14,\"message\":\"etcdserver: " LEARNER "\"}"), WEFT_ERR_UNREACHABLE, LEARNER},
      {HTTP("400 Bad", "{\"code\":9,\"message\":\"etcdserver: " LEARNER "\"}"), WEFT_ERR_UNREACHABLE, LEARNER},
      {HTTP("503 Unavailable", "{\"error\":{\"grpc_code\":14,\"message\":\"etcdserver: " LEARNER "\"}}"),
       WEFT_ERR_UNREACHABLE, LEARNER},
      {HTTP("400 Bad", "{\"error\":{\"code\":9,\"message\":\"etcdserver: " LEARNER "\"}}"), WEFT_ERR_UNREACHABLE,
       LEARNER},
      {HTTP("200 OK", "{\"header\":{\"revision\":\"9223372036854775807\"}}"), WEFT_ERR_PROTOCOL, "revision"},
      {"SSH-2.0-OpenSSH_9.2\r\n", WEFT_ERR_PROTOCOL, "HTTP"},
      {"", WEFT_ERR_UNREACHABLE, "mpty reply"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct scripted server;
    struct weft_store_list *list = NULL;
    scripted_start(&server, &(struct scripted_answer){.text = cases[i].answer}, 1);
    weft_store_t *store = open_on(server.url);
    int err = weft_store_range(store, "a", false, 0, &list);
    if (err != cases[i].err || (err && !strstr(weft_last_error(), cases[i].word)))
      fail_msg("%s: %s: %s", cases[i].answer, weft_err_name(err), weft_last_error());
    if (err)
      assert_non_null(strstr(weft_last_error(), server.url));
    else
      weft_store_list_free(list);
    weft_store_close(store);
    scripted_stop(&server);
  }
}

// A store that lies must not bring keys of others into a prefix.
static void an_answer_has_only_keys_that_were_asked_for(void **state) {
  (void)state;
  static const char answer[] =
      HTTP("200 OK",
           "{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"mod_revision\":\"3\"},{\"key\":\"YWE=\",\"mod_revision\":\"4\"}],"
           "\"count\":\"2\"}"); // "a" and "aa"
  static const char in_transaction[] =
      HTTP("200 OK", "{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"YWE=\","
                     "\"mod_revision\":\"3\"}],\"count\":\"1\"}}]}"); // "aa"
  static const struct {
    const char *key;
    bool prefix, transaction;
    int err;
  } cases[] = {{"", true, false, 0},
               {"a", true, false, 0},
               {"a", false, false, WEFT_ERR_PROTOCOL},
               {"aa", true, false, WEFT_ERR_PROTOCOL},
               {"b", true, false, WEFT_ERR_PROTOCOL},
               {"a", true, true, 0},
               {"aa", false, true, 0},
               {"a", false, true, WEFT_ERR_PROTOCOL},
               {"ab", true, true, WEFT_ERR_PROTOCOL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct scripted server;
    struct weft_store_list *list = NULL;
    struct weft_store_txn_result *result = NULL;
    struct weft_store_op op = {
        .kind = WEFT_STORE_RANGE, .key = cases[i].key, .flags = cases[i].prefix ? WEFT_STORE_OP_PREFIX : 0};
    struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
    txn.success = &op;
    txn.num_success = 1;
    scripted_start(&server, &(struct scripted_answer){.text = cases[i].transaction ? in_transaction : answer}, 1);
    weft_store_t *store = open_on(server.url);
    int err = cases[i].transaction ? weft_store_txn_commit(store, &txn, &result)
                                   : weft_store_range(store, cases[i].key, cases[i].prefix, 0, &list);
    if (err != cases[i].err || (err && !strstr(weft_last_error(), cases[i].key)))
      fail_msg("case %zu: %s: %s", i, weft_err_name(err), weft_last_error());
    weft_store_list_free(list);
    weft_store_txn_result_free(result);
    weft_store_close(store);
    scripted_stop(&server);
  }
}

// The member has not begun with the request, so that another one may get it, even if it modifies.
static void a_put_goes_on_to_the_next_member_if_this_one_refuses_it(void **state) {
  (void)state;
  static const char *const refusals[] = {
      HTTP("503 Unavailable", "{\"code\":14,\"message\":\"etcdserver: " LEARNER "\"}"),
      HTTP("503 Unavailable", "{\"code\":14,\"message\":\"etcdserver: no leader\"}"),
      HTTP("429 Too Many Requests", "{\"code\":8,\"message\":\"etcdserver: too many requests\"}"),
  };
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    struct scripted first, second;
    char endpoints[160];
    int64_t revision = 0;
    scripted_start(&first, &(struct scripted_answer){.text = refusals[i]}, 1);
    scripted_start(&second, &(struct scripted_answer){.text = HTTP("200 OK", "{" HEADER "}")}, 1);
    snprintf(endpoints, sizeof endpoints, "%s,%s", first.url, second.url);
    weft_store_t *store = open_on(endpoints);
    assert_ok(weft_store_put(store, "a", "1", 1, 0, &revision));
    assert_int_equal(revision, 5);
    weft_store_close(store);
    scripted_stop(&first);
    scripted_stop(&second);
  }
}

static void an_answer_without_end_is_cut_off(void **state) {
  (void)state;
  enum { SIZE = 40 << 20 };
  static const char head[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
  struct scripted server;
  struct weft_store_list *list;
  char *answer = test_malloc(SIZE);
  memset(answer, ' ', SIZE);
  memcpy(answer, head, sizeof head - 1);
  scripted_start(&server, &(struct scripted_answer){.text = answer, .size = SIZE}, 1);
  weft_store_t *store = open_on(server.url);
  assert_fails(WEFT_ERR_PROTOCOL, weft_store_range(store, "a", false, 0, &list));
  assert_non_null(strstr(weft_last_error(), "more than"));
  weft_store_close(store);
  scripted_stop(&server);
  test_free(answer);
}

static void broken_messages_of_a_watch_do_no_harm(void **state) {
  (void)state;
  static const char good[] =
      "{\"result\":{\"header\":{\"cluster_id\":\"18446744073709551615\",\"revision\":\"7\"},\"events\":[{\"kv\":{"
      "\"key\":"
      "\"YQ==\",\"create_revision\":\"2\",\"mod_revision\":\"6\",\"version\":\"1\",\"value\":\"YWI=\"}},{\"type\":"
      "\"DELETE\",\"kv\":{\"key\":\"YWE=\",\"mod_revision\":\"7\"}}]}}";
  struct client_message message;
  size_t refused = 0;
  assert_ok(client_message_read(good, sizeof good - 1, "e", "a", &message));
  assert_int_equal(message.events->count, 2);
  assert_true(!message.deleted[0] && message.deleted[1]);
  client_message_free(&message);
  assert_fails(WEFT_ERR_PROTOCOL, client_message_read(good, sizeof good - 1, "e", "b", &message)); // not its prefix
  uint64_t random = 20261120;
  for (int round = 0; round < 20000; round++) {
    char line[sizeof good];
    size_t size = sizeof good - 1;
    memcpy(line, good, sizeof good);
    for (uint64_t changes = random_next(&random) % 4; changes > 0; changes--)
      line[random_next(&random) % size] = (char)random_next(&random);
    if (random_next(&random) % 8 == 0)
      size = random_next(&random) % size;
    if (client_message_read(line, size, "e", "a", &message))
      refused++;
    else
      client_message_free(&message);
  }
  assert_uint_in_range(refused, 5000, 20000);
}

// As the gateways of etcd up to 3.5 and from 3.6 on write it, and the embedded server.
static void an_error_in_a_watch_is_reported_in_its_own_words(void **state) {
  (void)state;
  static const char *const errors[] = {
      "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\"}}",
      "{\"error\": {\"code\": 14, \"message\": \"etcdserver: no leader\", \"details\": []}}",
      "{\"error\":\"etcdserver: no leader\",\"message\":\"etcdserver: no leader\",\"code\":14}"};
  struct client_message message;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    assert_fails(WEFT_ERR_UNREACHABLE, client_message_read(errors[i], strlen(errors[i]), "e", "a", &message));
    assert_non_null(strstr(weft_last_error(), "no leader"));
  }
}

static void bad_options_are_refused_with_what_would_be_right(void **state) {
  (void)state;
  static const struct {
    struct weft_store_options options;
    const char *word;
  } cases[] = {
      {{.endpoints = NULL}, "http://host:port"},
      {{.endpoints = "localhost:2379"}, "http://host:port"},
      {{.endpoints = "http://a:1,,http://b:2"}, "http://host:port"},
      {{.endpoints = "ftp://a:1"}, "http://host:port"},
      {{.endpoints = "http://a:99999"}, "http://host:port"},
      {{.endpoints = "http://a:1/v3"}, "http://host:port"},
      {{.endpoints = "http://me:pw@a:1"}, "http://host:port"},
      {{.endpoints = "http://a:1", .user = "u"}, "password is missing"},
      {{.endpoints = "http://a:1", .user = "u", .password = "p", .token = "t"}, "embedded"},
      {{.endpoints = "http://a:1", .token = "a\r\nb"}, "printable"},
      {{.endpoints = "https://a:1", .ca_file = "/nonexistent/ca"}, "/nonexistent/ca"},
      {{.endpoints = "https://a:1", .cert_file = "/dev/null"}, "key is missing"},
  };
  weft_store_t *store = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct weft_store_options options = cases[i].options;
    options.size = sizeof options;
    assert_fails(WEFT_ERR_INVALID, weft_store_open(&store, &options));
    if (!strstr(weft_last_error(), cases[i].word))
      fail_msg("case %zu: %s", i, weft_last_error());
  }
  struct {
    struct weft_store_options known;
    uint64_t later;
  } newer = {.known = WEFT_STORE_OPTIONS_INIT, .later = 1};
  newer.known.size = sizeof newer;
  newer.known.endpoints = "http://127.0.0.1:1";
  assert_fails(WEFT_ERR_VERSION, weft_store_open(&store, &newer.known));
  newer.later = 0;
  assert_ok(weft_store_open(&store, &newer.known));
  weft_store_close(store);
  assert_fails(WEFT_ERR_INVALID, weft_store_open(&store, &(struct weft_store_options){.endpoints = "http://a:1"}));
}

// What opening a client of this endpoint writes to standard error.
static void read_warning(const char *endpoints, const char *user, const char *password, char *out, size_t size) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store = NULL;
  int ends[2], kept = dup(STDERR_FILENO);
  options.endpoints = endpoints;
  options.user = user;
  options.password = password;
  assert_true(kept >= 0 && pipe2(ends, O_CLOEXEC) == 0);
  assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  close(ends[1]);
  int err = weft_store_open(&store, &options);
  assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
  close(kept);
  ssize_t got = read(ends[0], out, size - 1);
  out[got > 0 ? got : 0] = '\0';
  close(ends[0]);
  assert_int_equal(err, 0);
  weft_store_close(store);
}

static void a_password_that_others_can_read_is_warned_of_once(void **state) {
  (void)state;
  static const char far[] = "https://etcd-0.example:2379,http://etcd-1.example:2379";
  char said[512];
  log_set_level(LOG_LEVEL_WARN); // whatever the environment says
  read_warning("https://etcd-0.example:2379", "me", "secret", said, sizeof said);
  assert_string_equal(said, "");
  read_warning("http://127.0.0.1:2379,http://localhost:2379,http://[::1]:2379", "me", "secret", said, sizeof said);
  assert_string_equal(said, "");
  read_warning(far, NULL, NULL, said, sizeof said);
  assert_string_equal(said, "");
  read_warning(far, "me", "secret", said, sizeof said);
  assert_non_null(strstr(said, "weft[warn] store http://etcd-1.example:2379: user and password"));
  assert_null(strstr(said, "secret"));
  read_warning(far, "me", "secret", said, sizeof said);
  assert_string_equal(said, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_to_a_range_are_checked),
      cmocka_unit_test(an_answer_has_only_keys_that_were_asked_for),
      cmocka_unit_test(a_put_goes_on_to_the_next_member_if_this_one_refuses_it),
      cmocka_unit_test(an_answer_without_end_is_cut_off),
      cmocka_unit_test(broken_messages_of_a_watch_do_no_harm),
      cmocka_unit_test(an_error_in_a_watch_is_reported_in_its_own_words),
      cmocka_unit_test(bad_options_are_refused_with_what_would_be_right),
      cmocka_unit_test(a_password_that_others_can_read_is_warned_of_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
