// The embedded server: in this process, where it is stopped, and at times in one of its own, which is killed.
#include "store/impatient/server.h"

#include "base/random.h"
#include "support/wait.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/store.h>

#define TOKEN "a-token-of-impatient-clients"

#ifdef __SANITIZE_THREAD__
// libmicrohttpd closes callers that it has not begun to serve without a lock when it stops: it has seen a plain flag
// that was set after the thread that brought them had ended. ThreadSanitizer does not see that order.
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
  return "race:libmicrohttpd.so\nrace:libgnutls.so\n";
}
#endif

static bool insecure;
static uint16_t the_port;
static weft_store_server_t *server; // NULL: it runs in `child`
static pid_t child;
static uint64_t random_state;

// BUSY: a connection of the server before is not quite gone, or another program's connection has the port.
static bool start_here(bool without_tls, uint16_t port, weft_store_server_t **out) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.port = port;
  options.token = without_tls ? NULL : TOKEN;
  options.flags = without_tls ? WEFT_STORE_SERVER_INSECURE : 0;
  int err = WEFT_ERR_BUSY;
  for (int i = 0; i < 500 && err == WEFT_ERR_BUSY; i++) {
    err = weft_store_server_start(out, &options);
    if (err == WEFT_ERR_BUSY)
      usleep(10000);
  }
  if (err)
    fprintf(stderr, "embedded server: %s: %s\n", weft_err_name(err), weft_last_error());
  return err == 0;
}

// The process of a server: "s1234" or "i1234", secure or insecure, and the port.
int server_be(const char *text) {
  char end;
  weft_store_server_t *own;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!start_here(*text == 'i', (uint16_t)strtoul(text + 1, NULL, 10), &own) || write(STDOUT_FILENO, "", 1) != 1)
    return 1;
  while (read(STDIN_FILENO, &end, 1) > 0) // until the parent has ended
    ;
  weft_store_server_stop(own);
  return 0;
}

static _Noreturn void become_server(int in, int out) {
  char text[16];
  snprintf(text, sizeof text, "%c%u", insecure ? 'i' : 's', the_port);
  if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
    execl("/proc/self/exe", "store_impatient", "serve", text, (char *)NULL);
  _exit(127);
}

static int parent_lives = -1; // the end of a pipe that the child reads

static bool start_child(void) {
  int in[2], out[2];
  char ready;
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
    return false;
  child = fork();
  if (child == 0)
    become_server(in[0], out[1]);
  close(in[0]);
  close(out[1]);
  parent_lives = in[1];
  bool up = child > 0 && read(out[0], &ready, 1) == 1;
  close(out[0]);
  return up;
}

static void end_child(enum server_end end) {
  int status;
  if (child <= 0)
    return;
  if (end == SERVER_IS_KILLED)
    kill(child, SIGKILL);
  close(parent_lives);
  waitpid(child, &status, 0);
  if (end == SERVER_STOPS && status != 0)
    fprintf(stderr, "the server's process ended with status %#x\n", (unsigned)status);
  child = 0;
}

static bool start_somewhere(void) {
  return random_next(&random_state) % 2 ? start_child() : start_here(insecure, the_port, &server);
}

static bool start(uint64_t drawn) {
  random_state = drawn;
  insecure = drawn % 3 == 0;
  the_port = support_free_port();
  return start_somewhere();
}

static void stop(void) {
  end_child(SERVER_STOPS);
  weft_store_server_stop(server);
  server = NULL;
}

static bool start_again(enum server_end end) {
  end_child(end);
  stop();
  return start_somewhere();
}

static void freeze(bool frozen) {
  if (child > 0)
    kill(child, frozen ? SIGSTOP : SIGCONT);
}

static uint16_t port(void) {
  return the_port;
}

static const char *scheme(void) {
  return insecure ? "http" : "https";
}

static const char *token(void) {
  return insecure ? NULL : TOKEN;
}

const struct server_kind server_kind = {.name = "embedded",
                                        .start = start,
                                        .start_again = start_again,
                                        .freeze = freeze,
                                        .stop = stop,
                                        .port = port,
                                        .scheme = scheme,
                                        .token = token};
