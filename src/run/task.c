#include "run/task.h"

#include <stdlib.h>

#include "base/fail.h"

char *run_task_to_text(const struct run_task *task) {
  json_t *json =
      json_pack("{s:s, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:i}", //
                "endpoints", task->endpoints, "token", task->token, "ca_file", task->ca_file, "cert_file",
                task->cert_file, "key_file", task->key_file, "user", task->user, "password", task->password, "job",
                task->job, "run", task->run, "rank", (int)task->rank, "slot", (int)task->slot, "gpu", (int)task->gpu,
                "phase", (int)task->phase, "patience", (int)task->patience_s, "launch_ns", (json_int_t)task->launch_ns,
                "agent_pid", (json_int_t)task->agent_pid, "message_fd", task->message_fd);
  char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  return text;
}

int run_task_from_text(struct run_task *task, const char *text, json_t **owner) {
  struct run_task read = {0};
  json_error_t error;
  json_t *json = json_loads(text, 0, &error);
  int slot = 0, phase = 0, patience = 0;
  json_int_t launch_ns = 0, agent_pid = 0;
  if (!json || json_unpack_ex(json, &error, 0,
                              "{s:s, s?s, s?s, s?s, s?s, s?s, s?s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:i}",
                              "endpoints", &read.endpoints, "token", &read.token, "ca_file", &read.ca_file, "cert_file",
                              &read.cert_file, "key_file", &read.key_file, "user", &read.user, "password",
                              &read.password, "job", &read.job, "run", &read.run, "rank", &read.rank, "slot", &slot,
                              "gpu", &read.gpu, "phase", &phase, "patience", &patience, "launch_ns", &launch_ns,
                              "agent_pid", &agent_pid, "message_fd", &read.message_fd)) {
    json_decref(json);
    return fail(WEFT_ERR_PROTOCOL, "%s is not what an agent writes: %s", RUN_TASK_VARIABLE, error.text);
  }
  read.slot = (uint32_t)slot;
  read.phase = (uint32_t)phase;
  read.patience_s = (uint32_t)patience;
  read.launch_ns = (uint64_t)launch_ns;
  read.agent_pid = agent_pid;
  *task = read;
  *owner = json;
  return 0;
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
