// conformance NAME [name=value...]: the suite on that transport, with settings of its own. NAME may be "NAME:CASES",
// with the cases' group: data, messages, life, threads, bad, processes or random. WEFT_SEED=N repeats the random ones;
// WEFT_TEST_KIND=host, cuda, file or object runs it for that memory of the peer's only; WEFT_TEST_CASES=PATTERN only
// the cases with such names.
#include "conformance/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/process_vm.h"

struct suite suite;

static const struct group {
  const char *name;
  const struct CMUnitTest *cases;
  const size_t *count;
} groups[] = {
    {"data", data_cases, &num_data_cases},
    {"messages", message_cases, &num_message_cases},
    {"life", life_cases, &num_life_cases},
    {"threads", thread_cases, &num_thread_cases},
    {"bad", bad_cases, &num_bad_cases},
    {"random", random_cases, &num_random_cases},
    {"processes", process_cases, &num_process_cases},
};

static const char *const kinds[TRANSPORT_KINDS] = {"host", "cuda", "file", "object"};

static int run_group(const struct group *group, const char *what) {
  char title[128];
  snprintf(title, sizeof title, "%s, %s memory: %s", suite.name, what, group->name);
  print_message("--- %s\n", title);
  return _cmocka_run_group_tests(title, group->cases, *group->count, NULL, NULL);
}

static int run_kind(enum weft_memory_kind kind, enum weft_memory_kind local, bool plain, const char *what,
                    const char *only) {
  int failed = 0;
  suite.kind = kind;
  suite.local_kind = local;
  suite.plain = plain;
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
    if (only && strcmp(only, groups[i].name) != 0)
      continue;
    if (groups[i].cases == process_cases && HAS(SELF_ONLY))
      print_message("not for %s: %s: its only peer is itself\n", suite.name, groups[i].name);
    else
      failed += run_group(&groups[i], what);
  }
  return failed;
}

static bool by_shared_memory(void) {
  return strcmp(suite.name, "shm") == 0 || strstr(suite.name, ":shm");
}

// Shared memory reaches what it cannot map by a call that not every kernel has.
static bool plain_memory_is_reached(void) {
  return !by_shared_memory() || process_vm_works("plain host");
}

static bool maps_nothing(void) {
  for (int i = 0; i < MAX_SETTINGS && suite.settings[i]; i++)
    if (strcmp(suite.settings[i], "map=off") == 0)
      return true;
  return false;
}

static int run_all(const char *only) {
  const char *wanted = getenv("WEFT_TEST_KIND");
  int failed = 0;
  for (uint32_t kind = 0; kind < TRANSPORT_KINDS; kind++) {
    if (!(suite.abilities.remote_kinds & 1u << kind) || (wanted && strcmp(wanted, kinds[kind]) != 0))
      continue;
    if (!place_can(kind)) {
      print_message("not run: the suite has no way to look at %s memory\n", kinds[kind]);
      continue;
    }
    failed += run_kind(kind, WEFT_MEMORY_HOST, false, kind == WEFT_MEMORY_HOST ? "mapped host" : kinds[kind], only);
    if (kind == WEFT_MEMORY_HOST && !HAS(MAPPED_ONLY) && plain_memory_is_reached())
      failed += run_kind(kind, WEFT_MEMORY_HOST, true, "plain host", only);
    bool from_cuda = suite.abilities.local_kinds & 1u << WEFT_MEMORY_CUDA && place_can(WEFT_MEMORY_CUDA);
    if (from_cuda && kind == WEFT_MEMORY_CUDA)
      failed += run_kind(kind, WEFT_MEMORY_CUDA, false, "cuda to cuda", only);
    if (from_cuda && kind == WEFT_MEMORY_FILE)
      failed += run_kind(kind, WEFT_MEMORY_CUDA, false, "cuda to file", only);
  }
  return failed;
}

static void draw_seed(void) {
  const char *given = getenv("WEFT_SEED");
  suite.seed = given ? strtoull(given, NULL, 0) : random_id();
  print_message("WEFT_SEED=%llu\n", (unsigned long long)suite.seed);
}

// Finds the transport and takes the settings that follow its name. False: it does not work here, in words.
static bool choose(char **argv) {
  char why[256] = "";
  suite.name = *argv++;
  for (int i = 0; *argv && i < MAX_SETTINGS; i++)
    suite.settings[i] = *argv++;
  if (transport_find(suite.name, &suite.transport) == 0 && suite.transport->probe(why, sizeof why) == 0)
    return true;
  printf("skipped: %s: %s\n", suite.name, why[0] ? why : weft_last_error());
  return false;
}

int main(int argc, char **argv) {
  if (argc > 3 && strcmp(argv[1], "--child") == 0) {
    if (!choose(argv + 3))
      return 1;
    suite.abilities = suite.transport->abilities;
    return child_main(atoi(argv[2]));
  }
  if (argc < 2) {
    fprintf(stderr, "usage: %s TRANSPORT[:CASES] [SETTING...]\n", argv[0]);
    return 2;
  }
  char *only = strrchr(argv[1], ':');
  if (only && strncmp(argv[1], "fault:", 6) != 0)
    *only++ = '\0';
  else
    only = NULL;
  if (!choose(argv + 1) || (maps_nothing() && !plain_memory_is_reached()))
    return 77;
  if (getenv("WEFT_TEST_CASES"))
    cmocka_set_test_filter(getenv("WEFT_TEST_CASES"));
  draw_seed();
  struct transport_options options = {.size = sizeof options, .settings = suite.settings};
  struct transport_worker *worker;
  if (suite.transport->open(&options, &worker) != 0) {
    printf("%s does not open: %s\n", suite.name, weft_last_error());
    return 1;
  }
  suite.abilities = worker->abilities;
  suite.transport->close(worker);
  return run_all(only) != 0;
}
