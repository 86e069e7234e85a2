// A real etcd for tests, on free ports.
#include "support/etcd.h"

#include "support/temporary.h"
#include "support/wait.h"
#include <curl/curl.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_ATTEMPTS = 5 };

// Skips the test with an etcd before 3.4: Ubuntu 22.04 has 3.3, whose requests have other paths.
static void require_version(void) {
  char line[256] = "";
  int major = 0, minor = 0;
  FILE *said = popen("etcd --version 2> /dev/null", "re"); // NOLINT(cert-env33-c): the etcd that the tests start
  if (said && fgets(line, sizeof line, said))
    sscanf(line, "etcd Version: %d.%d", &major, &minor);
  if (said)
    pclose(said);
  if (major > 3 || (major == 3 && minor >= 4) || major == 0)
    return;
  fprintf(stderr, "skipped: etcd here is %d.%d, and Weft wants 3.4 or newer\n", major, minor);
  exit(77);
}

void support_etcd_require(void) {
  const char *skip = getenv("WEFT_TEST_SKIP_ETCD");
  char *path = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin");
  bool found = false;
  char *rest = NULL;
  for (char *part = strtok_r(path, ":", &rest); part && !found; part = strtok_r(NULL, ":", &rest)) {
    char file[4096];
    snprintf(file, sizeof file, "%s/etcd", part);
    found = access(file, X_OK) == 0;
  }
  free(path);
  if (found) {
    require_version();
    return;
  }
  fprintf(stderr, "etcd is not installed (Debian: apt install etcd-server); WEFT_TEST_SKIP_ETCD=1 skips this test\n");
  exit(skip && !strcmp(skip, "1") ? 77 : 1);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw) {
  (void)status, (void)type, (void)ftw;
  return remove(path);
}

static void remove_tree(const char *path) {
  nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

// Starts the program etcd in the place of this one; only for the child.
static _Noreturn void become_etcd(const struct support_etcd *etcd, pid_t parent) {
  enum { MAX_ARGS = 48 };
  char data[128], log[128], peer[64], cluster[96];
  snprintf(data, sizeof data, "%s/data", etcd->directory);
  snprintf(log, sizeof log, "%s/log", etcd->directory);
  snprintf(peer, sizeof peer, "http://127.0.0.1:%u", etcd->peer_port);
  snprintf(cluster, sizeof cluster, "default=%s", peer);
  const char *args[MAX_ARGS] = {
      "etcd",    "--data-dir",         data, "--listen-client-urls",          etcd->url, "--advertise-client-urls",
      etcd->url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,      "--initial-cluster",
      cluster};
  size_t count = 13;
  for (size_t i = 0; etcd->extra && etcd->extra[i] && count < MAX_ARGS - 1; i++)
    args[count++] = etcd->extra[i];
  int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (fd >= 0 && getppid() == parent && dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0)
    execvp("etcd", (char *const *)args);
  _exit(127);
}

static bool is_up_or_dead(void *arg) {
  struct support_etcd *etcd = arg;
  if (waitpid(etcd->pid, NULL, WNOHANG) == etcd->pid)
    etcd->pid = 0;
  return etcd->pid == 0 || support_port_open(etcd->port);
}

static void kill_etcd(struct support_etcd *etcd) {
  if (etcd->pid <= 0)
    return;
  kill(etcd->pid, SIGKILL);
  waitpid(etcd->pid, NULL, 0);
  etcd->pid = 0;
}

static void print_log(const struct support_etcd *etcd) {
  char path[128], line[512];
  snprintf(path, sizeof path, "%s/log", etcd->directory);
  FILE *log = fopen(path, "r");
  while (log && fgets(line, sizeof line, log))
    fprintf(stderr, "etcd: %s", line);
  if (log)
    fclose(log);
}

static bool run_etcd(struct support_etcd *etcd) {
  pid_t parent = getpid();
  etcd->pid = fork();
  if (etcd->pid == 0)
    become_etcd(etcd, parent);
  if (etcd->pid < 0) {
    etcd->pid = 0;
    return false;
  }
  bool up = support_wait(is_up_or_dead, etcd, SUPPORT_DEADLINE_MS) && etcd->pid > 0;
  if (!up)
    kill_etcd(etcd);
  return up;
}

bool support_etcd_start(struct support_etcd *etcd) {
  support_temporary(etcd->directory, sizeof etcd->directory, "weft-etcd");
  if (!mkdtemp(etcd->directory)) {
    perror("directory for etcd");
    etcd->directory[0] = '\0';
    return false;
  }
  for (int i = 0; i < START_ATTEMPTS; i++) { // another process may take a free port before etcd does
    etcd->port = support_free_port();
    etcd->peer_port = support_free_port();
    snprintf(etcd->url, sizeof etcd->url, "%s://127.0.0.1:%u", etcd->scheme ? etcd->scheme : "http", etcd->port);
    if (run_etcd(etcd))
      return true;
  }
  print_log(etcd);
  support_etcd_stop(etcd);
  return false;
}

bool support_etcd_restart(struct support_etcd *etcd, bool keep_data) {
  char data[128];
  kill_etcd(etcd);
  snprintf(data, sizeof data, "%s/data", etcd->directory);
  if (!keep_data)
    remove_tree(data);
  if (run_etcd(etcd))
    return true;
  print_log(etcd);
  return false;
}

void support_etcd_stop(struct support_etcd *etcd) {
  kill_etcd(etcd);
  if (etcd->directory[0])
    remove_tree(etcd->directory);
  etcd->directory[0] = '\0';
}

static size_t drop_body(char *data, size_t size, size_t count, void *arg) {
  (void)data, (void)arg;
  return size * count;
}

bool support_etcd_post(const char *url, const char *path, const char *body) {
  char address[256];
  long status = 0;
  CURL *curl = curl_easy_init();
  if (!curl)
    return false;
  snprintf(address, sizeof address, "%s%s", url, path);
  curl_easy_setopt(curl, CURLOPT_URL, address);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_body);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)SUPPORT_DEADLINE_MS);
  CURLcode code = curl_easy_perform(curl);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_cleanup(curl);
  if (status != 200)
    fprintf(stderr, "%s%s %s: %s, HTTP status %ld\n", url, path, body, curl_easy_strerror(code), status);
  return status == 200;
}
