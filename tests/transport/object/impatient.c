// Impatient clients of a stormy server: s3_stormy.py runs this with its URL in the environment. The first argument is
// how long the clients live, in ms, the second their seed.
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "transport/object/client.h"

enum { CLIENTS = 3, MOST_LIFE_MS = 800, LEAST = 10 }; // LEAST: reads and writes that succeed, of all

// libcurl closes a socket that has not connected yet before it says so. Another thread may then have a descriptor of
// that number, of which the epoll set knows nothing.
#ifdef __SANITIZE_THREAD__
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
  return "race:on_socket";
}
#endif

static uint32_t all_ms = 2500;
static uint64_t seed;
static struct client clients[CLIENTS];
static atomic_bool finished;

static uint32_t succeeded(void) {
  uint32_t read = 0, wrote = 0;
  for (uint32_t i = 0; i < CLIENTS; i++) {
    read += atomic_load(&clients[i].read);
    wrote += atomic_load(&clients[i].wrote);
  }
  return read < wrote ? read : wrote;
}

static void *live(void *arg) {
  struct client *client = arg;
  uint64_t until_ns = clock_deadline_ms(all_ms), latest_ns = clock_deadline_ms(CLIENT_LONGEST_MS);
  bool good = true;
  while (good && (!clock_passed(until_ns) || (succeeded() < LEAST && !clock_passed(latest_ns))))
    good = client_live(client, client_draw(client, MOST_LIFE_MS));
  return NULL;
}

static void *ask(void *arg) {
  uint64_t random = random_mix(seed - 1);
  (void)arg;
  while (!atomic_load(&finished)) {
    client_ask(&clients[random_next(&random) % CLIENTS], &random);
    usleep(1000 + random_next(&random) % 10000);
  }
  return NULL;
}

static uint32_t count_descriptors(void) {
  DIR *all = opendir("/proc/self/fd");
  uint32_t count = 0;
  while (all && readdir(all))
    count++;
  closedir(all);
  return count;
}

static bool report(const struct client *client) {
  print_message("client %u: %u lives, %u writes, %u pieces read, %u requests failed, %u cancels; %u of %u queries "
                "answered; longest call: %s, %llu ms\n",
                client->index, client->lives, client->wrote, client->read, client->failed, client->cancels,
                client->answered, client->asked, client->longest, (unsigned long long)(client->longest_ns / 1000000));
  if (client->error[0])
    print_error("client %u: %s\n", client->index, client->error);
  if (client->asked_error[0])
    print_error("client %u: %s\n", client->index, client->asked_error);
  return !client->error[0] && !client->asked_error[0];
}

static void requests_end_and_bytes_are_right(void **state) {
  (void)state;
  pthread_t threads[CLIENTS], asker;
  const struct transport *transport;
  bool good = true;
  assert_int_equal(transport_find("object", &transport), 0);
  char why[160];
  assert_int_equal(transport->probe(why, sizeof why), 0);
  uint32_t descriptors = count_descriptors();
  print_message("seed %llu\n", (unsigned long long)seed);
  for (uint32_t i = 0; i < CLIENTS; i++)
    client_init(&clients[i], i, seed);
  for (uint32_t i = 0; i < CLIENTS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, live, &clients[i]), 0);
  assert_int_equal(pthread_create(&asker, NULL, ask, NULL), 0);
  for (uint32_t i = 0; i < CLIENTS; i++)
    pthread_join(threads[i], NULL);
  atomic_store(&finished, true);
  pthread_join(asker, NULL);
  for (uint32_t i = 0; i < CLIENTS; i++)
    good &= report(&clients[i]);
  assert_true(good);
  assert_true(succeeded() >= LEAST);
  assert_int_equal(count_descriptors(), descriptors);
  for (uint32_t i = 0; i < CLIENTS; i++)
    client_free(&clients[i]);
}

int main(int argc, char **argv) {
  if (argc > 1)
    all_ms = (uint32_t)atoi(argv[1]);
  seed = argc > 2 ? strtoull(argv[2], NULL, 0) : random_id();
  const struct CMUnitTest tests[] = {cmocka_unit_test(requests_end_and_bytes_are_right)};
  return cmocka_run_group_tests_name("transport_object_impatient", tests, NULL, NULL);
}
