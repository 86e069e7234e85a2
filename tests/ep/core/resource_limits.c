// The system's limits are hit: the call that hits a limit names it and says what to raise, existing ranks go on, and
// nothing is left behind. The limits hold for the whole process, so both ends of a connection are affected.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/log.h"
#include "base/time/clock.h"
#include "ep/support/background_rank.h"
#include "support/entries.h"
#include "support/sanitized.h"

enum {
  DEADLINE_MS = 30000,
  SHORT_MS = 300,
  MUCH = 64,
  ANOTHER_USER = 64321, // of which no process runs
  MIB = 1 << 20,
};

static struct weft_ep_options small(weft_store_t *store, int32_t rank) {
  return (struct weft_ep_options){.size = sizeof(struct weft_ep_options),
                                  .store = store,
                                  .rank = rank,
                                  .capacity = 2,
                                  .hidden = 128,
                                  .max_tokens = 4,
                                  .topk = 2};
}

// Windows of some megabytes.
static struct weft_ep_options large(weft_store_t *store, int32_t rank) {
  return (struct weft_ep_options){.size = sizeof(struct weft_ep_options), .store = store, .rank = rank, .capacity = 2};
}

// A guest that is to connect to a rank that is there.
struct visit {
  weft_store_t *store;
  struct background_rank resident;
  weft_ep_t *guest;
};

static void visit_begin(struct visit *visit, struct weft_ep_options (*options_of)(weft_store_t *store, int32_t rank)) {
  assert_int_equal(weft_store_open_local(&visit->store), 0);
  struct weft_ep_options options[] = {options_of(visit->store, 0), options_of(visit->store, 1)};
  background_rank_start(&visit->resident, &options[0]);
  assert_int_equal(weft_ep_open(&visit->guest, &options[1], DEADLINE_MS), 0);
}

static int visit_connect(struct visit *visit, uint32_t timeout_ms) {
  static const int32_t zero = 0;
  return weft_ep_connect(visit->guest, &zero, 1, timeout_ms);
}

static void visit_end(struct visit *visit) {
  weft_ep_close(visit->guest);
  background_rank_end(&visit->resident);
  weft_store_close(visit->store);
}

static struct rlimit lower(int resource, rlim_t to) {
  struct rlimit before, lowered;
  assert_int_equal(getrlimit(resource, &before), 0);
  lowered = (struct rlimit){.rlim_cur = to, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(resource, &lowered), 0);
  return before;
}

static void restore(int resource, const struct rlimit *before) {
  assert_int_equal(setrlimit(resource, before), 0);
}

static rlim_t lowest_free_descriptor(void) {
  int fd = dup(STDOUT_FILENO);
  assert_true(fd >= 0);
  close(fd);
  return (rlim_t)fd;
}

// Threads close what they held a moment later.
static void await_descriptors(int wanted) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (support_descriptors() != wanted) {
    if (clock_passed(deadline))
      fail_msg("%d descriptors are open, not %d", support_descriptors(), wanted);
    poll(NULL, 0, 1);
  }
}

static void assert_says(int rc, int code, const char *words) {
  if (rc != code || !strstr(weft_last_error(), words))
    fail_msg("%s: \"%s\" where %s with \"%s\" is due", weft_err_name(rc), weft_last_error(), weft_err_name(code),
             words);
}

static void open_names_the_descriptor_limit(void **state) {
  (void)state;
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options = small(store, 0);
  int descriptors = support_descriptors(), refused = 0;
  weft_ep_t *ep = NULL;
  for (; refused < MUCH; refused++) {
    struct rlimit before = lower(RLIMIT_NOFILE, lowest_free_descriptor() + (rlim_t)refused);
    int rc = weft_ep_open(&ep, &options, DEADLINE_MS);
    restore(RLIMIT_NOFILE, &before);
    if (rc == 0)
      break;
    assert_says(rc, WEFT_ERR_LIMIT, "ulimit -n");
    assert_null(ep);
    assert_int_equal(support_descriptors(), descriptors);
  }
  assert_true(refused >= 3 && refused < MUCH);
  weft_ep_close(ep);
  weft_store_close(store);
}

static void connect_names_the_descriptor_limit(void **state) {
  (void)state;
  struct visit visit;
  visit_begin(&visit, small);
  int descriptors = support_descriptors(), refused = 0, named = 0;
  for (; refused < MUCH; refused++) {
    struct rlimit before = lower(RLIMIT_NOFILE, lowest_free_descriptor() + (rlim_t)refused);
    int rc = visit_connect(&visit, SHORT_MS);
    restore(RLIMIT_NOFILE, &before);
    if (rc == 0)
      break;
    if (rc != WEFT_ERR_TIMEOUT) // the other rank could not even take the call, and logs this
      assert_says(rc, WEFT_ERR_LIMIT, "ulimit -n");
    named += rc == WEFT_ERR_LIMIT;
    background_rank_assert_runs(&visit.resident);
    await_descriptors(descriptors);
  }
  assert_true(named >= 3 && refused < MUCH);
  assert_int_equal(weft_ep_activate(visit.guest, DEADLINE_MS), 0);
  assert_int_equal(weft_ep_barrier(visit.guest), 0);
  visit_end(&visit);
}

// The linker puts this in the place of the library's (--wrap): it counts the warnings about a call that cannot be
// taken.
static atomic_uint warnings;
void __wrap_log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void __wrap_log_line(enum log_level level, const char *format, ...) {
  warnings += level == LOG_LEVEL_WARN && strstr(format, "cannot accept a connection now") != NULL;
}

// A socket that calls the rank, once it is connected; its address stands in the claim.
static int make_caller(weft_store_t *store, const char *claim, struct sockaddr_un *to, socklen_t *size) {
  struct weft_store_list *list;
  assert_int_equal(weft_store_range(store, claim, false, 0, &list), 0);
  assert_int_equal(list->count, 1);
  char name[64];
  const char *at = strstr(list->kvs[0]->value, " weft-");
  assert_true(at && sscanf(at + 1, "%63[^\"]", name) == 1);
  weft_store_list_free(list);
  *to = (struct sockaddr_un){.sun_family = AF_UNIX};
  memcpy(to->sun_path + 1, name, strlen(name));
  *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  return fd;
}

// A call that cannot be taken stays in the listener's queue, which would wake the service thread again and again.
static void a_call_that_cannot_be_taken_is_seldom_looked_at(void **state) {
  (void)state;
  enum { WAIT_MS = 1000 };
  static const int32_t one = 1;
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options[] = {small(store, 0), small(store, 1)};
  weft_ep_t *ep, *peer;
  assert_int_equal(weft_ep_open(&ep, &options[0], DEADLINE_MS), 0);
  assert_int_equal(weft_ep_open(&peer, &options[1], DEADLINE_MS), 0);
  struct sockaddr_un to;
  socklen_t size;
  int caller = make_caller(store, "/weft/default/rank/1", &to, &size);
  struct rlimit before = lower(RLIMIT_NOFILE, lowest_free_descriptor());
  assert_int_equal(connect(caller, (struct sockaddr *)&to, size), 0);
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  warnings = 0;
  while (warnings == 0 && !clock_passed(deadline))
    poll(NULL, 0, 1);
  assert_true(warnings > 0);
  poll(NULL, 0, WAIT_MS); // what may happen in that time, ten looks, is counted
  unsigned looks = warnings;
  restore(RLIMIT_NOFILE, &before);
  close(caller);
  if (looks > 100)
    fail_msg("%u looks at a call that could not be taken in %d ms", looks, WAIT_MS);
  assert_int_equal(weft_ep_connect(ep, &one, 1, DEADLINE_MS), 0);
  weft_ep_close(peer);
  weft_ep_close(ep);
  weft_store_close(store);
}

static rlim_t address_space(void) {
  FILE *file = fopen("/proc/self/statm", "re");
  unsigned long pages = 0;
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%lu", &pages), 1);
  fclose(file);
  return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

// qemu-user takes RLIMIT_AS and does not keep it.
static bool address_space_is_limited(void) {
  enum { MORE = 64 * MIB };
  struct rlimit before = lower(RLIMIT_AS, address_space());
  void *more = mmap(NULL, MORE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  restore(RLIMIT_AS, &before);
  if (more == MAP_FAILED)
    return true;
  munmap(more, MORE);
  print_message("skipped: nothing limits the address space here\n");
  return false;
}

static void connect_names_the_memory_limit(void **state) {
  (void)state;
  if (SUPPORT_SANITIZED || !address_space_is_limited()) // a sanitizer's shadow takes the address space
    skip();
  struct visit visit;
  visit_begin(&visit, large);
  int descriptors = support_descriptors(), refused = 0;
  for (; refused < MUCH; refused++) { // a connection maps four windows here
    struct rlimit before = lower(RLIMIT_AS, address_space() + (rlim_t)refused * 4 * MIB);
    int rc = visit_connect(&visit, DEADLINE_MS);
    restore(RLIMIT_AS, &before);
    if (rc == 0)
      break;
    assert_says(rc, WEFT_ERR_NOMEM, "ulimit -v");
    background_rank_assert_runs(&visit.resident);
    await_descriptors(descriptors);
  }
  assert_true(refused >= 4 && refused < MUCH);
  visit_end(&visit);
}

static void connect_names_the_file_size_limit(void **state) {
  (void)state;
  struct visit visit;
  visit_begin(&visit, large);
  struct rlimit before = lower(RLIMIT_FSIZE, MIB);
  int rc = visit_connect(&visit, DEADLINE_MS);
  restore(RLIMIT_FSIZE, &before);
  assert_says(rc, WEFT_ERR_LIMIT, "ulimit -f");
  background_rank_assert_runs(&visit.resident);
  assert_int_equal(visit_connect(&visit, DEADLINE_MS), 0);
  visit_end(&visit);
}

enum outcome { OPENED, NO_STORE, NO_RANK, WRONG };

// In a process of a user that may have so many threads.
static enum outcome open_with_threads(rlim_t threads) {
  struct rlimit limit = {threads, threads};
  weft_store_t *store;
  weft_ep_t *ep = NULL;
  if (setresuid(ANOTHER_USER, ANOTHER_USER, ANOTHER_USER) != 0 || setrlimit(RLIMIT_NPROC, &limit) != 0)
    return WRONG;
  int rc = weft_store_open_local(&store);
  if (rc != 0)
    return rc == WEFT_ERR_LIMIT && strstr(weft_last_error(), "ulimit -u") ? NO_STORE : WRONG;
  struct weft_ep_options options = small(store, 0);
  int descriptors = support_descriptors();
  rc = weft_ep_open(&ep, &options, DEADLINE_MS);
  if (rc == 0)
    return OPENED;
  bool clean = support_descriptors() == descriptors;
  bool named = rc == WEFT_ERR_LIMIT && strstr(weft_last_error(), "ulimit -u");
  weft_store_close(store);
  return clean && named ? NO_RANK : WRONG;
}

static void open_names_the_thread_limit(void **state) {
  (void)state;
  if (geteuid() != 0 || SUPPORT_SANITIZED) // root can become somebody without threads; sanitizers may have their own
    skip();
  int count[WRONG + 1] = {0};
  for (rlim_t threads = 1; threads < MUCH && count[OPENED] == 0; threads++) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
      _exit((int)open_with_threads(threads));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < WRONG);
    count[WEXITSTATUS(status)]++;
  }
  assert_true(count[NO_STORE] >= 1 && count[NO_RANK] >= 2 && count[OPENED] == 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(open_names_the_descriptor_limit),
      cmocka_unit_test(connect_names_the_descriptor_limit),
      cmocka_unit_test(a_call_that_cannot_be_taken_is_seldom_looked_at),
      cmocka_unit_test(connect_names_the_memory_limit),
      cmocka_unit_test(connect_names_the_file_size_limit),
      cmocka_unit_test(open_names_the_thread_limit),
  };
  return cmocka_run_group_tests_name("ep_resource_limits", tests, NULL, NULL);
}
