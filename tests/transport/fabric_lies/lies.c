// Runs each lie of the catalogue in a separate process and reports the result.
#include "lies.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "base/wire/card.h"

const struct transport *lies_transport;
const char *const *lies_settings;

enum { SCENARIO_S = 280, MOVE_MS = 3000 }; // the first is less than what ctest gives
static uint64_t *step;                     // of the child, shared with its parent

void lies_step(uint64_t number) {
  *step = number;
}

void lies_check(bool condition, const char *what) {
  if (condition)
    return;
  fprintf(stderr, "step %llu: %s\n", (unsigned long long)*step, what);
  _exit(1);
}

static char **arguments;

// Tells the child its scenario, and the descriptor of the memory of its step.
#define SCENARIO_IN "WEFT_LIES_SCENARIO"
#define STEP_IN     "WEFT_LIES_STEP"

static void map_step(int fd) {
  step = mmap(NULL, sizeof *step, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static void start_scenario(const char *name, int fd) {
  char number[16];
  snprintf(number, sizeof number, "%d", fd);
  setenv(SCENARIO_IN, name, 1);
  setenv(STEP_IN, number, 1);
  execv("/proc/self/exe", arguments);
  _exit(127);
}

// Addresses of UCX's on-host transports name a process and a file of it, which UCX opens and reads as a segment (see
// docs/known-faults.md; Weft leaves them out unless the user names them). A turned bit may name a file that is shorter,
// of whatever else runs here: then the read is a SIGBUS.
static bool is_known_fault(int status) {
  bool named = false;
  for (const char *const *setting = lies_settings; setting && *setting; setting++)
    named |= strstr(*setting, "TLS=shm") != NULL;
  return named && WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
}

static void run_scenario(void **state) {
  const struct lies_scenario *scenario = *state;
  int fd = memfd_create("step", 0), status;
  assert_true(fd >= 0 && ftruncate(fd, sizeof *step) == 0);
  map_step(fd);
  assert_true(step != MAP_FAILED);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    start_scenario(scenario->name, fd);
  close(fd);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (is_known_fault(status)) {
    print_message("%s: skipped from step %llu on: UCX opened a file of this host that an address named\n",
                  scenario->name, (unsigned long long)*step);
    munmap(step, sizeof *step);
    return;
  }
  if (WIFSIGNALED(status))
    fail_msg("the process was ended by signal %d (%s) at step %llu", WTERMSIG(status), strsignal(WTERMSIG(status)),
             (unsigned long long)*step);
  assert_int_equal(WEXITSTATUS(status), 0);
  munmap(step, sizeof *step);
}

static void be_the_child(const char *name, const struct lies_scenario *scenarios, size_t num_scenarios) {
  const char *fd = getenv(STEP_IN);
  if (fd)
    map_step(atoi(fd));
  for (size_t i = 0; fd && step != MAP_FAILED && i < num_scenarios; i++) {
    if (strcmp(scenarios[i].name, name) != 0)
      continue;
    alarm(SCENARIO_S);
    scenarios[i].run();
    _exit(0);
  }
  _exit(126);
}

int lies_main(char **argv, const struct lies_scenario *scenarios, size_t num_scenarios) {
  enum { MOST = 16 };
  struct CMUnitTest tests[MOST] = {0};
  const char *name = getenv(SCENARIO_IN);
  if (name)
    be_the_child(name, scenarios, num_scenarios);
  arguments = argv;
  if (num_scenarios > MOST)
    return 2;
  for (size_t i = 0; i < num_scenarios; i++)
    tests[i] = (struct CMUnitTest){
        .name = scenarios[i].name, .test_func = run_scenario, .initial_state = (void *)&scenarios[i]};
  return _cmocka_run_group_tests("lies", tests, num_scenarios, NULL, NULL);
}

void blob_make(struct blob *blob, const struct blob *like, const void *body, size_t size) {
  struct wire_reader head = {.bytes = like->bytes, .size = like->size};
  uint32_t magic = (uint32_t)wire_take_number(&head, 4), version = (uint32_t)wire_take_number(&head, 4);
  const struct card card = {"a lie", magic, version};
  struct blob made = {.size = sizeof made.bytes};
  struct wire_writer writer = card_begin(&card, made.bytes, made.size);
  wire_put(&writer, body, size);
  lies_check(card_end(&card, &writer, &made.size) == 0, "a card that cannot be made");
  *blob = made;
}

uint64_t blob_number(struct blob *blob, size_t at, size_t size) {
  struct wire_reader reader = {.bytes = blob_body(blob), .size = blob_body_size(blob), .at = at};
  return wire_take_number(&reader, size);
}

void blob_set(struct blob *blob, size_t at, uint64_t value, size_t size) {
  struct blob copy = *blob;
  for (size_t i = 0; i < size; i++)
    blob_body(&copy)[at + i] = (unsigned char)(value >> 8 * i);
  blob_make(blob, &copy, blob_body(&copy), blob_body_size(&copy));
}

void side_open(struct side *side, bool read_only) {
  struct transport_options options = {.size = sizeof options, .settings = lies_settings};
  side->arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  lies_check(side->arena != MAP_FAILED, "no memory");
  memset(side->arena, CANARY, ARENA);
  memset(side->arena + OTHER_AT, SECRET, LENT);
  memset(side->arena + LENT_AT, LOAN, LENT);
  lies_check(lies_transport->open(&options, &side->worker) == 0, weft_last_error());
  struct transport_memory memory = {
      .address = side->arena + LENT_AT, .length = LENT, .fd = -1, .read_only = read_only, .device = -1};
  lies_check(lies_transport->reg(side->worker, &memory, &side->lent) == 0, weft_last_error());
  memory.address = side->arena + OTHER_AT;
  memory.read_only = false;
  lies_check(lies_transport->reg(side->worker, &memory, &side->other) == 0, weft_last_error());
}

void side_close(struct side *side) {
  lies_transport->close(side->worker);
  munmap(side->arena, ARENA);
}

void side_address(struct side *side, struct blob *blob) {
  blob->size = sizeof blob->bytes;
  lies_check(lies_transport->address(side->worker, blob->bytes, &blob->size) == 0, weft_last_error());
}

void side_key(struct transport_region *region, struct blob *blob) {
  blob->size = sizeof blob->bytes;
  lies_check(lies_transport->pack(region, blob->bytes, &blob->size) == 0, weft_last_error());
}

struct transport_peer *side_connect(struct side *side, const struct blob *address) {
  struct transport_peer *peer = NULL;
  return lies_transport->connect(side->worker, address->bytes, address->size, NULL, &peer) == 0 ? peer : NULL;
}

void side_check(const struct side *side, const char *what) {
  for (size_t i = 0; i < ARENA; i++) {
    bool lent = i >= LENT_AT && i < LENT_AT + LENT, other = i >= OTHER_AT && i < OTHER_AT + LENT;
    lies_check(lent || side->arena[i] == (other ? SECRET : CANARY), what);
  }
}

void lies_drive(struct side *first, struct side *second, int times) {
  for (int i = 0; i < times; i++) {
    lies_transport->progress(first->worker);
    if (second)
      lies_transport->progress(second->worker);
  }
}

int lies_move(struct side *from, struct side *second, struct transport_remote *remote, enum weft_transfer_op op,
              uint64_t address, uint64_t length) {
  struct transport_piece piece = {.local = from->lent,
                                  .remote = remote,
                                  .local_address = (uintptr_t)from->arena + LENT_AT,
                                  .remote_address = address,
                                  .length = length};
  struct transport_request request = {.peer = remote->peer, .op = op, .pieces = &piece, .num_pieces = 1};
  uint64_t deadline = clock_deadline_ms(MOVE_MS);
  bool stopped = false;
  if (lies_transport->prepare(&request) != 0)
    return WEFT_ERR_INVALID;
  if (lies_transport->post(&request) == 0) {
    while (atomic_load(&request.state) == TRANSPORT_IN_FLIGHT) {
      lies_drive(from, second, 1);
      if (!stopped && clock_passed(deadline)) {
        lies_transport->cancel(&request);
        stopped = true;
      }
    }
  }
  int state = atomic_load(&request.state);
  lies_transport->unprepare(&request);
  return state;
}
