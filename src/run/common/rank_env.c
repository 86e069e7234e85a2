// Passes the task to a rank process: the node writes it to sealed memory, and the rank reads it.
#include "run/common/rank_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "secure/secret.h"

enum { TASK_MAX = 1 << 20 }; // bytes

static void wipe(const json_t *json, const char *name) {
  const json_t *secret = json_object_get(json, name);
  if (json_is_string(secret))
    explicit_bzero((char *)json_string_value(secret), json_string_length(secret));
}

void run_task_free(json_t *owner) {
  wipe(owner, "token");
  wipe(owner, "password");
  json_decref(owner);
}

char *run_task_to_text(const struct run_task *task) {
  json_t *json = json_pack(
      "{s:s, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:i, s:i, s:i, s:i}", //
      "endpoints", task->endpoints, "token", task->token, "ca_file", task->ca_file, "cert_file", task->cert_file,
      "key_file", task->key_file, "user", task->user, "password", task->password, "job", task->job, "run", task->run,
      "rank", (int)task->rank, "slot", (int)task->slot, "gpu", (int)task->gpu, "phase", (int)task->phase, "patience",
      (int)task->wait_limit_s, "launch_ns", (json_int_t)task->launch_ns, "agent_pid", (json_int_t)task->agent_pid,
      "message_fd", task->message_fd, "counters_fd", task->counters_fd, "counters_place", (int)task->counters_place,
      "num_counters", (int)task->num_counters);
  char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
  run_task_free(json);
  return text;
}

int run_task_from_text(struct run_task *task, const char *text, json_t **owner) {
  struct run_task read = {0};
  json_error_t error;
  json_t *json = json_loads(text, 0, &error);
  int slot = 0, phase = 0, wait_limit = 0, counters_place = 0, num_counters = 0;
  json_int_t launch_ns = 0, agent_pid = 0;
  if (!json ||
      json_unpack_ex(
          json, &error, 0,
          "{s:s, s?s, s?s, s?s, s?s, s?s, s?s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:i, s:i, s:i, s:i}",
          "endpoints", &read.endpoints, "token", &read.token, "ca_file", &read.ca_file, "cert_file", &read.cert_file,
          "key_file", &read.key_file, "user", &read.user, "password", &read.password, "job", &read.job, "run",
          &read.run, "rank", &read.rank, "slot", &slot, "gpu", &read.gpu, "phase", &phase, "patience", &wait_limit,
          "launch_ns", &launch_ns, "agent_pid", &agent_pid, "message_fd", &read.message_fd, "counters_fd",
          &read.counters_fd, "counters_place", &counters_place, "num_counters", &num_counters)) {
    run_task_free(json);
    // jansson's own error text would quote the task.
    return fail(WEFT_ERR_PROTOCOL, "the task in the descriptor of %s is malformed, from byte %d on", RUN_TASK_VARIABLE,
                error.position);
  }
  read.slot = (uint32_t)slot;
  read.phase = (uint32_t)phase;
  read.wait_limit_s = (uint32_t)wait_limit;
  read.launch_ns = (uint64_t)launch_ns;
  read.agent_pid = agent_pid;
  read.counters_place = (uint32_t)counters_place;
  read.num_counters = (uint32_t)num_counters;
  *task = read;
  *owner = json;
  return 0;
}

int run_task_to_descriptor(const struct run_task *task, int *fd) {
  char *text = run_task_to_text(task);
  int err = !text ? fail(WEFT_ERR_NOMEM, "no memory for the task of rank %d", task->rank)
            : strlen(text) > TASK_MAX
                ? fail(WEFT_ERR_INVALID, "the store's URLs and files are too long to pass to rank %d", task->rank)
                : secret_to_descriptor(text, fd);
  secret_free(text);
  return err;
}

// Whether the descriptor is memory that can no longer change, as nodes pass it. `*size`: size of its text.
static bool is_sealed(int fd, size_t *size) {
  const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
  struct stat status;
  int has = fcntl(fd, F_GET_SEALS);
  if (has < 0 || (has & seals) != seals || fstat(fd, &status) != 0 || status.st_size > TASK_MAX)
    return false;
  *size = (size_t)status.st_size;
  return true;
}

static int read_all(int fd, size_t size, char **text) {
  char *read = calloc(1, size + 1);
  size_t got = 0;
  ssize_t more = 1;
  while (read && got < size && more > 0) {
    more = pread(fd, read + got, size - got, (off_t)got);
    if (more < 0 && errno == EINTR)
      more = 1;
    else if (more > 0)
      got += (size_t)more;
  }
  if (!read)
    return fail(WEFT_ERR_NOMEM, "no memory for a task");
  *text = read;
  return got == size && strlen(read) == size
             ? 0
             : fail(WEFT_ERR_PROTOCOL, "the task in the descriptor of %s is cut short", RUN_TASK_VARIABLE);
}

int run_task_receive(struct run_task *task, json_t **owner) {
  const char *number = getenv(RUN_TASK_VARIABLE);
  if (!number)
    return fail(WEFT_ERR_INVALID, "weft rank is started by 'weft elastic', which sets %s", RUN_TASK_VARIABLE);
  char *end, *text = NULL;
  long fd = strtol(number, &end, 10);
  size_t size = 0;
  bool is_number = *number >= '0' && *number <= '9' && !*end && fd <= INT32_MAX;
  unsetenv(RUN_TASK_VARIABLE);
  if (!is_number || !is_sealed((int)fd, &size))
    return fail(WEFT_ERR_PROTOCOL, "%s does not name the file descriptor that 'weft elastic' passes",
                RUN_TASK_VARIABLE);
  int err = read_all((int)fd, size, &text);
  close((int)fd);
  if (!err)
    err = run_task_from_text(task, text, owner);
  secret_free(text);
  return err;
}

void run_task_store_options(const struct run_task *task, struct weft_store_options *options) {
  options->endpoints = task->endpoints;
  options->token = task->token;
  options->ca_file = task->ca_file;
  options->cert_file = task->cert_file;
  options->key_file = task->key_file;
  options->user = task->user;
  options->password = task->password;
}
