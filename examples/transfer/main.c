// Two processes move memory: one writes into the other's memory with a notification, then reads it back.
//
// The target allocates a region and listens. The initiator connects to it, writes a pattern, and reads the target's
// answer, which is each byte of the pattern inverted. Both sides check every byte.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

enum { TIMEOUT_MS = 30000, MAX_BYTES = 1 << 30 };

static const char usage[] =
    "usage: transfer [BYTES]\n"
    "Writes BYTES (1 to 1073741824, default 1048576) to another process and reads its answer.\n"
    "Exit status: 0 all bytes right, 2 wrong usage, 4 wrong bytes; others: weft_err_exit_status().\n";

// Reports a failed call of the library, with the library's sentence.
static int report(const char *what, int err) {
  if (err)
    fprintf(stderr, "transfer: %s: %s: %s\n", what, weft_strerror(err), weft_last_error());
  return err;
}

// Reports a failure that this program itself has found; weft_last_error() does not describe it.
static int complain(const char *what, int err) {
  fprintf(stderr, "transfer: %s: %s\n", what, weft_strerror(err));
  return err;
}

static unsigned char pattern(size_t i) {
  return (unsigned char)(i * 31 + 7);
}

// Compares `bytes` with the pattern, each byte combined with `flip` by exclusive or.
static int check(const unsigned char *bytes, size_t length, unsigned char flip) {
  for (size_t i = 0; i < length; i++) {
    if (bytes[i] != (unsigned char)(pattern(i) ^ flip)) {
      fprintf(stderr, "transfer: byte %zu is wrong\n", i);
      return WEFT_ERR_DATA;
    }
  }
  return 0;
}

// Whether a peer has closed its agent, or its process has ended, so that nothing more can come from it.
static bool somebody_has_gone(weft_agent_t *agent) {
  struct weft_agent_event event = WEFT_AGENT_EVENT_INIT;
  while (weft_agent_next_event(agent, &event) == 1)
    if (event.kind == WEFT_AGENT_EVENT_PEER_LEFT || event.kind == WEFT_AGENT_EVENT_PEER_LOST)
      return true;
  return false;
}

// Waits for one notification and checks its text.
static int wait_for(weft_agent_t *agent, const char *text, weft_peer_t *peer) {
  struct pollfd ready = {.events = POLLIN};
  int err = weft_agent_fd(agent, &ready.fd);
  if (err)
    return report("descriptor of notifications", err);
  for (;;) {
    struct weft_notification note;
    uint32_t count;
    bool gone = somebody_has_gone(agent); // checked first: everything that the peer sent before has then arrived
    err = weft_agent_notifications(agent, &note, 1, &count);
    if (err)
      return report("notifications", err);
    if (count == 1) {
      *peer = note.peer;
      bool same = note.size == strlen(text) && memcmp(note.bytes, text, note.size) == 0;
      return same ? 0 : complain("unexpected notification", WEFT_ERR_PROTOCOL);
    }
    if (gone)
      return complain("the other side has gone before its notification", WEFT_ERR_PEER_LOST);
    if (poll(&ready, 1, TIMEOUT_MS) <= 0)
      return complain("no notification in time", WEFT_ERR_TIMEOUT);
  }
}

static int open_agent(weft_agent_t **agent, const char *name, const char *listen, const char *token) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.name = name;
  options.listen = listen;
  options.token = token; // only agents with the same token exchange metadata
  return report("open", weft_agent_open(agent, &options));
}

// The target's part: checks the pattern, answers with the inverted pattern, and waits until the initiator has read it.
static int answer(weft_agent_t *agent, unsigned char *bytes, size_t length) {
  weft_peer_t initiator;
  int err = wait_for(agent, "written", &initiator);
  if (!err)
    err = check(bytes, length, 0);
  if (err)
    return err;
  for (size_t i = 0; i < length; i++)
    bytes[i] ^= 0xff;
  err = report("notify", weft_agent_notify(agent, initiator, "answered", 8));
  return err ? err : wait_for(agent, "read", &initiator);
}

// Runs the target, and writes the number of its port to `out` for the initiator.
static int run_target(size_t length, const char *token, int out) {
  weft_agent_t *agent = NULL;
  weft_region_t region;
  void *bytes = NULL;
  uint16_t port = 0;
  int err = open_agent(&agent, "target", "127.0.0.1:0", token);
  if (!err)
    err = report("allocate", weft_agent_allocate(agent, WEFT_MEMORY_HOST, length, -1, &region, &bytes));
  if (!err)
    err = report("port", weft_agent_port(agent, &port));
  if (!err && write(out, &port, sizeof port) != sizeof port)
    err = complain("pipe", WEFT_ERR_SYSTEM);
  if (!err)
    err = answer(agent, bytes, length);
  weft_agent_close(agent); // frees the region too
  return err;
}

// Creates a transfer between the two lists, posts it once, waits for its end and frees it. A program that moves the
// same memory again would keep the transfer and only post it again.
static int move(weft_agent_t *agent, enum weft_transfer_op op, weft_dlist_t *local, weft_dlist_t *remote,
                const char *note) {
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.notification = note;
  options.notification_size = (uint32_t)strlen(note);
  weft_transfer_t *transfer = NULL;
  int err = report("create", weft_transfer_create(agent, op, local, remote, &options, &transfer));
  if (!err)
    err = report("post", weft_transfer_post(transfer));
  if (!err)
    err = weft_transfer_wait(transfer, TIMEOUT_MS);
  if (err == 1) { // it continues: its memory must not be used until it has ended
    report("cancel", weft_transfer_cancel(transfer, TIMEOUT_MS));
    err = complain("a transfer did not end in time", WEFT_ERR_TIMEOUT);
  } else {
    report("wait", err);
  }
  if (!err)
    printf("%s: %s", op == WEFT_TRANSFER_WRITE ? "write" : "read", weft_transfer_explain(transfer));
  weft_transfer_free(transfer);
  return err;
}

// Writes the pattern, waits for the answer, reads it and checks it.
static int write_and_read(weft_agent_t *agent, weft_dlist_t *local, weft_dlist_t *remote, unsigned char *bytes,
                          size_t length) {
  weft_peer_t target;
  int err = move(agent, WEFT_TRANSFER_WRITE, local, remote, "written");
  if (!err)
    err = wait_for(agent, "answered", &target);
  if (!err)
    err = move(agent, WEFT_TRANSFER_READ, local, remote, "read");
  return err ? err : check(bytes, length, 0xff);
}

// Connects to the target, and makes a list of one descriptor for the memory of each side.
static int exchange(weft_agent_t *agent, const char *address, weft_region_t region, unsigned char *bytes,
                    size_t length) {
  weft_peer_t target;
  struct weft_region_info there;
  uint32_t count = 0;
  int err = report("meet", weft_agent_meet(agent, address, TIMEOUT_MS, &target));
  if (!err)
    err = report("regions", weft_agent_regions(agent, target, &there, sizeof there, 1, &count));
  if (!err && (count == 0 || there.length < length))
    err = complain("the target has no region of this length", WEFT_ERR_NOT_FOUND);
  if (err)
    return err;

  struct weft_descriptor from = {.address = (uintptr_t)bytes, .length = length, .region = region};
  struct weft_descriptor to = {.address = there.address, .length = length, .region = there.region};
  weft_dlist_t *local = NULL, *remote = NULL;
  err = report("local list", weft_dlist_create(agent, WEFT_PEER_SELF, &from, 1, &local));
  if (!err)
    err = report("remote list", weft_dlist_create(agent, target, &to, 1, &remote));
  if (!err)
    err = write_and_read(agent, local, remote, bytes, length);
  weft_dlist_free(remote);
  weft_dlist_free(local);
  return err;
}

// Waits for the end of the target's process, which has reported its own failure. If it found wrong bytes, this process
// fails with DATA, too.
static int finish(pid_t child) {
  int status;
  if (waitpid(child, &status, 0) != child)
    return complain("the target is gone", WEFT_ERR_SYSTEM);
  if (status == 0)
    return 0;
  bool wrong = WIFEXITED(status) && WEXITSTATUS(status) == weft_err_exit_status(WEFT_ERR_DATA);
  return complain("the target failed", wrong ? WEFT_ERR_DATA : WEFT_ERR_PEER_LOST);
}

static int run_initiator(size_t length, const char *token, uint16_t port, pid_t child) {
  unsigned char *bytes = malloc(length);
  if (!bytes)
    return complain("memory", WEFT_ERR_NOMEM);
  for (size_t i = 0; i < length; i++)
    bytes[i] = pattern(i);

  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  memory.address = bytes;
  memory.length = length;
  char address[32];
  snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)port);
  weft_agent_t *agent = NULL;
  weft_region_t region;
  int err = open_agent(&agent, "initiator", NULL, token);
  if (!err)
    err = report("register", weft_agent_register(agent, &memory, &region));
  if (!err)
    err = exchange(agent, address, region, bytes, length);
  // If an agent closes, an unread notification of it may be lost, so this agent stays open until the target has ended.
  int ended = finish(child);
  weft_agent_close(agent); // after this nothing accesses `bytes` any more
  free(bytes);
  return ended == WEFT_ERR_DATA || !err ? ended : err;
}

// A shared secret of 32 hexadecimal digits.
static int make_token(char token[33]) {
  unsigned char random[16];
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return complain("random bytes", WEFT_ERR_SYSTEM);
  for (size_t i = 0; i < sizeof random; i++)
    snprintf(token + 2 * i, 3, "%02x", random[i]);
  return 0;
}

// Starts the target as a child process before this process has threads, then runs the initiator in this process.
static int run(size_t length) {
  char token[33];
  int ends[2];
  int err = make_token(token);
  if (err)
    return err;
  if (pipe(ends) != 0)
    return complain("pipe", WEFT_ERR_SYSTEM);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    _exit(weft_err_exit_status(run_target(length, token, ends[1])));
  }
  close(ends[1]);
  uint16_t port;
  if (child < 0)
    err = complain("fork", WEFT_ERR_SYSTEM);
  else if (read(ends[0], &port, sizeof port) != sizeof port)
    err = finish(child);
  else
    err = run_initiator(length, token, port, child);
  close(ends[0]);
  return err;
}

int main(int argc, char **argv) {
  char *end = "";
  unsigned long long length = argc > 1 ? strtoull(argv[1], &end, 10) : 1 << 20;
  if (argc > 2 || *end != '\0' || length == 0 || length > MAX_BYTES) {
    fputs(usage, stderr);
    return 2;
  }
  int err = run((size_t)length);
  if (!err)
    printf("passed: %llu bytes written, answered and read\n", length);
  return weft_err_exit_status(err);
}
