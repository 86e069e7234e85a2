// Threads that copy at the same time, each on its own processor and in its own memory.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "base/fail.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "limits/measured/measured.h"

enum { READY_MS = 60000, HUGE_PAGE = 2 << 20, LINE = 64, BETWEEN_LOOKS = 1 << 20 };

// --- ways to copy ---

typedef void copy_fn(char *to, const char *from, uint64_t size);

static void copy_plain(char *to, const char *from, uint64_t size) {
  memcpy(to, from, size);
}

#ifdef __x86_64__
// Writes around the caches: otherwise data larger than the caches would be read into them only to be overwritten. Both
// addresses are aligned to cache lines.
static void copy_streaming(char *to, const char *from, uint64_t size) {
  for (uint64_t at = 0; at < size; at += LINE) {
    _mm_prefetch(from + at + 16 * LINE, _MM_HINT_T1);
    for (uint64_t i = at; i < at + LINE; i += 16)
      _mm_stream_si128((__m128i *)(void *)(to + i), _mm_load_si128((const __m128i *)(const void *)(from + i)));
  }
  _mm_sfence();
}

static void copy_string(char *to, const char *from, uint64_t size) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size)::"memory");
}

static copy_fn *const ways[] = {copy_plain, copy_streaming, copy_string};
#else
static copy_fn *const ways[] = {copy_plain};
#endif
enum { WAYS = sizeof ways / sizeof *ways, TRIES = 2 };

// --- the threads ---

enum state { WAITS, RUNS, ENDS };

struct team {
  const struct limits_try *one;
  const struct limits_copiers *copiers;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  enum state state;
  uint32_t round; // of the RUNS
  uint32_t ready, done, failed;
  copy_fn *way;
  uint64_t until_ns;
};

struct member {
  struct team *team;
  pthread_t thread;
  int cpu;
  char *from, *to;
  double gbps; // of the last round
};

static void bind_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set); // if this fails, the thread runs on any processor
}

// Memory is allocated on the node whose processor touches it first.
static char *map(uint64_t size) {
  char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return NULL;
  madvise(memory, size, MADV_HUGEPAGE);
  return memory;
}

static uint64_t half_of(const struct team *team) {
  return team->copiers->bytes / 2 / LINE * LINE;
}

static bool prepare(struct member *member) {
  uint64_t size = half_of(member->team);
  member->from = map(size);
  member->to = map(size);
  if (!member->from || !member->to)
    return false;
  bind_to(member->team->copiers->source_cpu >= 0 ? member->team->copiers->source_cpu : member->cpu);
  memset(member->from, 1, size);
  bind_to(member->cpu);
  memset(member->to, 2, size);
  return true;
}

// Small sets are copied several times between two readings of the clock.
static void copy_until(struct member *member) {
  struct team *team = member->team;
  uint64_t size = half_of(team), times = BETWEEN_LOOKS / size + 1, bytes = 0, begun = clock_ns(), now;
  do {
    for (uint64_t i = 0; i < times; i++)
      team->way(member->to, member->from, size);
    bytes += times * size;
    now = clock_ns();
  } while (now < team->until_ns);
  member->gbps = (double)bytes / (double)(now - begun);
}

static void *run(void *arg) {
  struct member *member = arg;
  struct team *team = member->team;
  bool prepared = prepare(member);
  uint32_t round = 0;
  pthread_mutex_lock(&team->lock);
  team->failed += !prepared;
  team->ready++;
  pthread_cond_broadcast(&team->changed);
  for (;;) {
    while (team->state != ENDS && team->round == round)
      pthread_cond_wait(&team->changed, &team->lock);
    if (team->state == ENDS)
      break;
    round = team->round;
    pthread_mutex_unlock(&team->lock);
    copy_until(member);
    pthread_mutex_lock(&team->lock);
    team->done++;
    pthread_cond_broadcast(&team->changed);
  }
  pthread_mutex_unlock(&team->lock);
  return NULL;
}

// Waits until `*count` shows that all have arrived. The lock is held.
static int await_all(struct team *team, const uint32_t *count, const char *what) {
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += READY_MS / 1000;
  while (*count < team->copiers->count)
    if (pthread_cond_timedwait(&team->changed, &team->lock, &deadline) == ETIMEDOUT && *count < team->copiers->count)
      return fail(WEFT_ERR_TIMEOUT, "%u of %u threads that copy memory did not %s within %d s",
                  team->copiers->count - *count, team->copiers->count, what, READY_MS / 1000);
  return 0;
}

// All threads begin and end at the same time, so the sum of their rates is the common rate.
static int try_once(struct team *team, struct member *members, copy_fn *way, double *gbps) {
  pthread_mutex_lock(&team->lock);
  team->way = way;
  team->done = 0;
  team->until_ns = clock_ns() + team->one->slice_ns;
  team->state = RUNS;
  team->round++;
  pthread_cond_broadcast(&team->changed);
  int rc = await_all(team, &team->done, "end");
  pthread_mutex_unlock(&team->lock);
  double sum = 0;
  for (uint32_t i = 0; i < team->copiers->count; i++)
    sum += members[i].gbps;
  *gbps = sum > *gbps ? sum : *gbps;
  return rc;
}

static int try_ways(struct team *team, struct member *members, double *gbps) {
  pthread_mutex_lock(&team->lock);
  int rc = await_all(team, &team->ready, "begin");
  if (rc == 0 && team->failed > 0)
    rc = fail(WEFT_ERR_NOMEM, "no memory for %u threads that copy %llu bytes each", team->copiers->count,
              (unsigned long long)team->copiers->bytes);
  pthread_mutex_unlock(&team->lock);
  for (int i = 0; i < WAYS * TRIES && rc == 0; i++) {
    rc = limits_check_stopped(team->one);
    if (rc == 0)
      rc = try_once(team, members, ways[i % WAYS], gbps);
  }
  return rc;
}

static int start(struct team *team, struct member *members, uint32_t *started) {
  for (uint32_t i = 0; i < team->copiers->count; i++) {
    members[i] = (struct member){.team = team, .cpu = team->copiers->cpus[i]};
    int error = thread_create(&members[i].thread, NULL, run, &members[i]);
    if (error != 0)
      return fail_thread(error, "a thread that copies memory");
    ++*started;
  }
  return 0;
}

// Nothing may be freed while a thread still copies. All threads end, since a copy waits for nothing.
static void end(struct team *team, struct member *members, uint32_t started) {
  pthread_mutex_lock(&team->lock);
  team->state = ENDS;
  pthread_cond_broadcast(&team->changed);
  pthread_mutex_unlock(&team->lock);
  for (uint32_t i = 0; i < started; i++) {
    pthread_join(members[i].thread, NULL);
    if (members[i].from)
      munmap(members[i].from, half_of(team));
    if (members[i].to)
      munmap(members[i].to, half_of(team));
  }
}

int limits_copy_rate(const struct limits_try *one, const struct limits_copiers *copiers, double *gbps) {
  struct team team = {
      .one = one, .copiers = copiers, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  struct member *members = calloc(copiers->count, sizeof *members);
  uint32_t started = 0;
  double best = 0;
  if (!members)
    return fail(WEFT_ERR_NOMEM, "no memory for %u threads that copy", copiers->count);
  int rc = start(&team, members, &started);
  if (rc == 0)
    rc = try_ways(&team, members, &best);
  end(&team, members, started);
  free(members);
  if (rc == 0)
    *gbps = best;
  return rc;
}
