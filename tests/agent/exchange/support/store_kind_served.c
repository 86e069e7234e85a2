// The embedded server, or with KIND_ETCD a real etcd.
#include "agent/exchange/support/store_kind.h"
#include "cmocka_all.h"
#include "support/etcd.h"
#include "support/wait.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef KIND_ETCD
static struct support_etcd etcd;

bool store_kind_begin(void) {
  support_etcd_require();
  return support_etcd_start(&etcd);
}

void store_kind_end(void) {
  support_etcd_stop(&etcd);
}

const char *store_kind_url(void) {
  return etcd.url;
}

uint16_t store_kind_port(void) {
  return etcd.port;
}

bool store_kind_keeps(void) {
  return true;
}

void store_kind_stop(void) {
  kill(etcd.pid, SIGKILL);
  waitpid(etcd.pid, NULL, 0);
  etcd.pid = 0;
}

void store_kind_start(bool keep) {
  assert_true(support_etcd_restart(&etcd, keep));
}
#else
// The server runs in a separate process. The process is forked before this one has threads, because the tests fork too.
// A byte through a pipe starts or stops the server; the process sends the byte back when that is done.
static char url[64];
static uint16_t port;
static pid_t keeper;
static int to, from;

static bool obey(weft_store_server_t **server, char command) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.flags = WEFT_STORE_SERVER_INSECURE;
  options.port = port;
  if (command == 's')
    return weft_store_server_start(server, &options) == 0;
  weft_store_server_stop(*server);
  *server = NULL;
  return true;
}

static void be_keeper(int in, int out) {
  weft_store_server_t *server = NULL;
  char command;
  while (read(in, &command, 1) == 1) {
    if (!obey(&server, command)) {
      fprintf(stderr, "%s\n", weft_last_error());
      break;
    }
    if (write(out, &command, 1) != 1)
      break;
  }
  weft_store_server_stop(server);
  _exit(0);
}

static bool send_command(char command) {
  char answer;
  return write(to, &command, 1) == 1 && read(from, &answer, 1) == 1;
}

bool store_kind_begin(void) {
  int there[2], back[2];
  port = support_free_port();
  snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
  if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0)
    return false;
  fflush(NULL);
  keeper = fork();
  if (keeper == 0) {
    close(there[1]);
    close(back[0]);
    be_keeper(there[0], back[1]);
  }
  close(there[0]);
  close(back[1]);
  to = there[1];
  from = back[0];
  return send_command('s');
}

void store_kind_end(void) {
  close(to);
  close(from);
  waitpid(keeper, NULL, 0);
}

const char *store_kind_url(void) {
  return url;
}

uint16_t store_kind_port(void) {
  return port;
}

bool store_kind_keeps(void) {
  return false;
}

void store_kind_stop(void) {
  assert_true(send_command('k'));
}

void store_kind_start(bool keep) {
  assert_false(keep);
  assert_true(send_command('s'));
}
#endif

weft_store_t *store_kind_open(void) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store = NULL;
  options.endpoints = store_kind_url();
  options.connect_timeout_ms = 500;
  options.request_timeout_ms = 5000;
  assert_int_equal(weft_store_open(&store, &options), 0);
  return store;
}

void store_kind_close(weft_store_t *store) {
  weft_store_close(store);
}
