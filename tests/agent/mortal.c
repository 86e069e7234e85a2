// Actors that are processes, which are killed and stopped at random, and begin again. They use shared memory, or the
// transport that the first argument names. The second argument is the longest life of an agent in ms.
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "agent/support/actor.h"
#include "base/random.h"
#include "support/sanitized.h"
#include "support/wait.h"

enum {
  FAULTS = SUPPORT_SANITIZED ? 20 : 30, // kills and stops
  LEAST = 20,                           // writes that all together verify
  MOST_STOP_MS = 100,
};

static const char *transport = "shm";
static uint32_t most_life_ms = 300;

struct shared {
  struct actors actors;
  atomic_bool calm; // nobody is killed any more: agents live until enough writes are verified
  atomic_bool over;
};

static struct shared *shared;
static pid_t processes[ACTORS];

static void be_actor(struct actor *actor) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  bool good = true;
  while (good && !atomic_load(&shared->over))
    good = actor_live(&shared->actors, actor, actor_draw(actor, most_life_ms), atomic_load(&shared->calm) ? LEAST : 0);
  _exit(good ? 0 : 1);
}

static void start(uint32_t i) {
  struct actor *actor = &shared->actors.list[i];
  actor->random = random_mix(actor->random);
  atomic_store(&actor->port, 0);
  processes[i] = fork();
  assert_true(processes[i] >= 0);
  if (processes[i] == 0)
    be_actor(actor);
}

// Kills the actor, or stops it for a while. False: it had ended by itself.
static bool inject_fault(uint32_t i, uint64_t drawn) {
  int status = 0;
  if (drawn % 4 == 0) {
    kill(processes[i], SIGSTOP);
    usleep((useconds_t)(drawn >> 8) % (MOST_STOP_MS * 1000));
    kill(processes[i], SIGCONT);
    return true;
  }
  kill(processes[i], SIGKILL);
  assert_int_equal(waitpid(processes[i], &status, 0), processes[i]);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
    return false;
  start(i);
  return true;
}

static bool end_all(void) {
  bool good = true;
  atomic_store(&shared->over, true);
  for (uint32_t i = 0; i < ACTORS; i++) {
    int status = 0;
    assert_int_equal(waitpid(processes[i], &status, 0), processes[i]);
    if (status != 0)
      print_error("actor %u ended with status %#x\n", i, (unsigned)status);
    good &= status == 0;
  }
  return good;
}

static bool has_verified(void *arg) {
  (void)arg;
  return atomic_load(&shared->actors.verified) >= LEAST;
}

static void live_agents_go_on_while_others_are_killed_and_stopped(void **state) {
  (void)state;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(shared != MAP_FAILED);
  uint64_t random = random_id();
  actors_init(&shared->actors, transport, random);
  for (uint32_t i = 0; i < ACTORS; i++)
    start(i);
  bool good = true;
  for (uint32_t i = 0; i < FAULTS && good; i++) {
    usleep((useconds_t)(random_next(&random) % (most_life_ms * 1000)) / 2);
    good = inject_fault((uint32_t)(random_next(&random) % ACTORS), random_next(&random));
  }
  atomic_store(&shared->calm, true);
  support_wait(has_verified, NULL, SUPPORT_DEADLINE_MS);
  good &= end_all();
  good &= actors_report(&shared->actors);
  assert_true(good);
  assert_true(has_verified(NULL));
}

int main(int argc, char **argv) {
  if (argc > 1)
    transport = argv[1];
  if (argc > 2)
    most_life_ms = (uint32_t)atoi(argv[2]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(live_agents_go_on_while_others_are_killed_and_stopped)};
  return cmocka_run_group_tests_name("agent_mortal", tests, NULL, NULL);
}
