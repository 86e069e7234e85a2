// Equal random operations on a local store, an embedded server and a real etcd give equal answers and events. A
// difference is reported as the shortest sequence that was found, for
//   test_store_sequences SEED STEP...   runs these steps of the sequence again
#include "base/random.h"
#include "base/time/clock.h"
#include "conformance/subject.h"
#include "conformance/suite.h"
#include "support/etcd.h"
#include "support/sanitized.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  SEEDS = SUPPORT_SANITIZED ? 2 : 3,
  STEPS = SUPPORT_SANITIZED ? 400 : 1200,
  SYNC_EVERY = 64,   // a synchronisation costs etcd up to 100 ms
  SHRINK_MS = 60000, // how long to look for a shorter sequence
};

struct sequence {
  uint64_t seed;
  uint32_t steps[STEPS + 1];
  size_t count;
};

static struct subject subjects[SUBJECTS];

static bool differ(const struct subject *all, size_t count) {
  for (size_t i = 0; i + 1 < count; i++)
    if (strcmp(all[i].said.data, all[count - 1].said.data) != 0)
      return true;
  return false;
}

// Runs the sequence from an empty store on. How many of its steps it took for a difference to show, 0: there is none.
static size_t replay(struct subject *all, size_t count, const struct sequence *sequence) {
  size_t differs_at = 0;
  for (size_t i = 0; i < count; i++)
    subject_begin(&all[i]);
  for (size_t s = 0; s <= sequence->count && !differs_at; s++) { // the last one: whether all events have come
    uint32_t step = s < sequence->count ? sequence->steps[s] : SYNC_EVERY - 1;
    for (size_t i = 0; i < count; i++)
      subject_operate(&all[i], random_mix(sequence->seed << 32 | step), step % SYNC_EVERY == SYNC_EVERY - 1);
    if (differ(all, count))
      differs_at = s < sequence->count ? s + 1 : sequence->count;
  }
  for (size_t i = 0; i < count; i++)
    subject_end(&all[i]);
  return differs_at;
}

static void cut_out(const struct sequence *from, size_t start, size_t length, struct sequence *to) {
  to->seed = from->seed;
  to->count = 0;
  for (size_t i = 0; i < from->count; i++)
    if (i < start || i >= start + length)
      to->steps[to->count++] = from->steps[i];
}

// Leaves out as many steps as it can, in ever smaller pieces, so that what is left still differs.
static void shrink(struct subject *all, size_t count, struct sequence *sequence) {
  static struct sequence shorter;
  uint64_t deadline = clock_deadline_ms(SHRINK_MS);
  for (size_t piece = (sequence->count + 1) / 2; piece > 0; piece /= 2)
    for (size_t start = 0; start < sequence->count && !clock_passed(deadline);) {
      cut_out(sequence, start, piece, &shorter);
      size_t differs_at = replay(all, count, &shorter);
      if (differs_at) {
        *sequence = shorter;
        sequence->count = differs_at;
      } else {
        start += piece;
      }
    }
}

static void whole_sequence(struct sequence *sequence, uint64_t seed) {
  sequence->seed = seed;
  for (sequence->count = 0; sequence->count < STEPS; sequence->count++)
    sequence->steps[sequence->count] = (uint32_t)sequence->count;
}

static void print_sequence(struct subject *all, size_t count, const struct sequence *sequence) {
  fprintf(stderr, "seed %" PRIu64 ": these %zu steps differ; run again: test_store_sequences %" PRIu64, sequence->seed,
          sequence->count, sequence->seed);
  for (size_t i = 0; i < sequence->count; i++)
    fprintf(stderr, " %" PRIu32, sequence->steps[i]);
  fprintf(stderr, "\n");
  struct sequence part = *sequence;
  for (size_t s = 0; s < sequence->count; s++) { // each step with what it says; the last one differs
    part.count = 1;
    part.steps[0] = sequence->steps[s];
    if (s == 0)
      for (size_t i = 0; i < count; i++)
        subject_begin(&all[i]);
    for (size_t i = 0; i < count; i++) {
      subject_operate(&all[i], random_mix(part.seed << 32 | part.steps[0]),
                      part.steps[0] % SYNC_EVERY == SYNC_EVERY - 1);
      fprintf(stderr, "%8s %s\n", all[i].name, all[i].said.data);
    }
  }
  for (size_t i = 0; i < count; i++)
    subject_end(&all[i]);
}

static void random_operations_give_the_same_answers_and_events(void **state) {
  (void)state;
  static struct sequence sequence;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    whole_sequence(&sequence, seed);
    size_t differs_at = replay(subjects, SUBJECTS, &sequence);
    if (!differs_at)
      continue;
    sequence.count = differs_at;
    shrink(subjects, SUBJECTS, &sequence);
    print_sequence(subjects, SUBJECTS, &sequence);
    fail_msg("seed %" PRIu64 ": a difference after %zu steps, %zu of them enough", seed, differs_at, sequence.count);
  }
  print_message("%d sequences of %d operations on local, embedded and etcd: equal\n", SEEDS, STEPS);
}

// One of two local stores tells a wrong version of a key that was put twice: two puts and a range are enough.
static void a_difference_is_found_and_the_sequence_made_short(void **state) {
  (void)state;
  static struct sequence sequence;
  struct subject pair[2] = {{.name = "right"}, {.name = "wrong", .planted = true}};
  for (int i = 0; i < 2; i++)
    assert_ok(weft_store_open_local(&pair[i].store));
  whole_sequence(&sequence, 1);
  sequence.count = 400;
  size_t differs_at = replay(pair, 2, &sequence);
  assert_uint_in_range(differs_at, 5, 400);
  sequence.count = differs_at;
  shrink(pair, 2, &sequence);
  assert_uint_in_range(sequence.count, 1, 3);
  assert_int_equal(replay(pair, 2, &sequence), sequence.count);
  for (int i = 0; i < 2; i++) {
    weft_store_close(pair[i].store);
    text_free(&pair[i].said);
  }
}

static int start(void **state) {
  (void)state;
  return subjects_open(subjects) ? 0 : -1;
}

static int stop(void **state) {
  (void)state;
  subjects_close(subjects);
  return 0;
}

static int run_again(int count, char **arguments) {
  static struct sequence sequence;
  sequence.seed = strtoull(arguments[0], NULL, 10);
  for (int i = 1; i < count && i <= STEPS; i++)
    sequence.steps[sequence.count++] = (uint32_t)strtoul(arguments[i], NULL, 10);
  if (!subjects_open(subjects))
    return 1;
  print_sequence(subjects, SUBJECTS, &sequence);
  subjects_close(subjects);
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_difference_is_found_and_the_sequence_made_short),
      cmocka_unit_test(random_operations_give_the_same_answers_and_events),
  };
  support_etcd_require();
  if (argc > 1)
    return run_again(argc - 1, argv + 1);
  return cmocka_run_group_tests(tests, start, stop);
}
