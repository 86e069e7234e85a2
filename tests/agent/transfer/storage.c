// Memory to storage and back through the public interface: the agent's own files by loopback and, if the environment
// has an S3 server (tests/transport/support/s3_swift.py), objects.
#include "cmocka_all.h"

#include "agent/support/owned.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/agent.h>

#include "support/temporary.h"
#include "support/wait.h"

enum { BYTES = 1 << 20 };

static weft_agent_t *agent;
static uint8_t *memory;
static weft_region_t host;

static void works(int rc) {
  if (rc < 0)
    fail_msg("%s: %s", weft_err_name(rc), weft_last_error());
}

static weft_transfer_t *transfer_of(enum weft_transfer_op op, weft_region_t storage, uint64_t at, uint64_t offset,
                                    uint64_t length, const char *note) {
  struct weft_descriptor here = {(uint64_t)(uintptr_t)memory + at, length, host}, there = {offset, length, storage};
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfer;
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.notification = note;
  options.notification_size = note ? (uint32_t)strlen(note) : 0;
  options.max_notification = 16;
  works(weft_dlist_create(agent, WEFT_PEER_SELF, &here, 1, &local));
  works(weft_dlist_create(agent, WEFT_PEER_SELF, &there, 1, &remote));
  works(weft_transfer_create(agent, op, local, remote, &options, &transfer));
  return transfer; // the lists stay until the agent is closed
}

static int move(enum weft_transfer_op op, weft_region_t storage, uint64_t at, uint64_t offset, uint64_t length,
                const char *note) {
  weft_transfer_t *transfer = transfer_of(op, storage, at, offset, length, note);
  works(weft_transfer_post(transfer));
  int rc = weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS);
  if (rc < 0)
    print_message("%s: %s\n", weft_err_name(rc), weft_transfer_error(transfer));
  works(weft_transfer_free(transfer));
  return rc;
}

static int set_up(void **state) {
  (void)state;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.name = "keeper";
  works(weft_agent_open(&agent, &options));
  void *address;
  works(weft_agent_allocate(agent, WEFT_MEMORY_HOST, BYTES, -1, &host, &address));
  memory = address;
  for (uint32_t i = 0; i < BYTES; i++)
    memory[i] = (uint8_t)(i * 7 + (i >> 9));
  return 0;
}

// With the address of a server at whose port nobody listens.
static int set_up_without_server(void **state) {
  setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9", 1);
  set_up(state);
  unsetenv("AWS_ENDPOINT_URL_S3");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  owned_close(agent);
  return 0;
}

static weft_region_t keep(enum weft_memory_kind kind, const char *path, uint64_t length) {
  struct weft_agent_memory what = WEFT_AGENT_MEMORY_INIT;
  weft_region_t region;
  what.kind = kind;
  what.path = path;
  what.length = length;
  works(weft_agent_register(agent, &what, &region));
  return region;
}

// The notifications that have come until now, one behind the other.
static void hear(char *all, size_t room) {
  struct weft_notification note;
  uint32_t count = 1;
  size_t used = 0;
  while (count == 1) {
    works(weft_agent_notifications(agent, &note, 1, &count));
    assert_true(count == 0 || used + note.size < room);
    if (count == 0)
      break;
    memcpy(all + used, note.bytes, note.size);
    used += note.size;
  }
  all[used] = '\0';
}

// The transport of files carries no message: a request of its own brings it.
static void each_post_has_its_notification(weft_region_t storage, const char *made) {
  char all[64];
  weft_transfer_t *transfer = transfer_of(WEFT_TRANSFER_WRITE, storage, 0, 0, 1000, made);
  struct weft_post post = WEFT_POST_INIT;
  for (int i = 0; i < 4; i++) {
    post.notification = i % 2 ? NULL : i == 0 ? "one" : "another one";
    post.notification_size = i % 2 ? 0 : (uint32_t)strlen(post.notification);
    works(weft_transfer_post_with(transfer, &post));
    works(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS));
  }
  works(weft_transfer_post(transfer));
  works(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS));
  hear(all, sizeof all);
  assert_string_equal(all, made ? "onemadeanother onemademade" : "oneanother one");
  works(weft_transfer_free(transfer));
}

static void there_and_back(weft_region_t storage) {
  enum { HALF = BYTES / 2, LENGTH = 300001 };
  assert_int_equal(move(WEFT_TRANSFER_WRITE, storage, 0, 0, LENGTH, "kept"), 0);
  assert_int_equal(move(WEFT_TRANSFER_READ, storage, HALF, 1, LENGTH - 1, NULL), 0);
  assert_memory_equal(memory + HALF, memory + 1, LENGTH - 1);
  struct weft_notification note;
  uint32_t count = 0;
  for (uint32_t i = 0; i < 1000000 && count == 0; i++) {
    count = 1;
    works(weft_agent_notifications(agent, &note, count, &count));
  }
  assert_int_equal(count, 1);
  assert_int_equal(note.size, 4);
  assert_memory_equal(note.bytes, "kept", 4);
  assert_int_equal(move(WEFT_TRANSFER_READ, storage, HALF, LENGTH - 10, 20, NULL), WEFT_ERR_LIMIT);
}

static void test_file(void **state) {
  (void)state;
  char path[96];
  support_temporary(path, sizeof path, "weft-keep");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  unlink(path);
  weft_region_t file = keep(WEFT_MEMORY_FILE, path, 0); // creates it
  there_and_back(file);
  struct stat about;
  assert_int_equal(stat(path, &about), 0);
  assert_int_equal(about.st_size, 300001);
  each_post_has_its_notification(file, "made");
  each_post_has_its_notification(file, NULL);
  weft_transfer_t *transfer = transfer_of(WEFT_TRANSFER_READ, file, 0, 0, 10, NULL);
  assert_non_null(strstr(weft_transfer_explain(transfer), "file"));
  assert_int_equal(weft_agent_deregister(agent, file), WEFT_ERR_BUSY);
  unlink(path);
}

// Whose other end nobody holds: opening it would wait for that one.
static void test_pipe(void **state) {
  (void)state;
  char folder[96], path[128];
  support_temporary(folder, sizeof folder, "weft-keep");
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/pipe", folder);
  assert_int_equal(mkfifo(path, 0600), 0);
  struct weft_agent_memory what = WEFT_AGENT_MEMORY_INIT;
  weft_region_t region = 0;
  what.kind = WEFT_MEMORY_FILE;
  what.path = path;
  what.flags = WEFT_MEMORY_READ_ONLY;
  assert_int_equal(weft_agent_register(agent, &what, &region), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), path));
  unlink(path);
  rmdir(folder);
}

static void test_object(void **state) {
  (void)state;
  if (!getenv("AWS_ENDPOINT_URL"))
    skip();
  there_and_back(keep(WEFT_MEMORY_OBJECT, "bucket/kept by an agent", 0));
}

// The transport tries again for at least 775 ms. On a host that halts this process for long, it ends first.
static void test_a_timeout_names_the_last_failure(void **state) {
  (void)state;
  struct weft_agent_memory what = WEFT_AGENT_MEMORY_INIT;
  struct weft_post post = WEFT_POST_INIT;
  weft_region_t object;
  what.kind = WEFT_MEMORY_OBJECT;
  what.path = "bucket/key";
  if (weft_agent_register(agent, &what, &object) == WEFT_ERR_UNSUPPORTED)
    skip(); // this build has no objects
  weft_transfer_t *transfer = transfer_of(WEFT_TRANSFER_WRITE, object, 0, 0, 1000, NULL);
  post.timeout_ms = 300;
  works(weft_transfer_post_with(transfer, &post));
  int rc = weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS);
  const char *error = weft_transfer_error(transfer);
  assert_true(rc == WEFT_ERR_TIMEOUT || rc == WEFT_ERR_UNREACHABLE);
  assert_non_null(strstr(error, rc == WEFT_ERR_TIMEOUT ? "within 300 ms; the last attempt failed: " : "object: "));
  assert_non_null(strstr(error, "bucket/key: http://127.0.0.1:9: "));
  assert_non_null(strstr(error, ": Connection refused"));
  works(weft_transfer_free(transfer));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_file, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_pipe, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_object, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_timeout_names_the_last_failure, set_up_without_server, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
