// Features of shared memory between processes only: paths under /proc, slots, rings and gates.
#include "conformance/suite.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "support/process_vm.h"
#include "transport/shm/shm.h"

enum { SHORT_LIVES = 400, SHORT_LIVED = 0x5407 }; // the cookie of such a worker

struct suite suite = {.name = "shm", .settings = {"here=off"}};

static int set_up(void **state) {
  (void)state;
  assert_works(transport_find("shm", &suite.transport));
  suite.abilities = suite.transport->abilities;
  return 0;
}

static void test_as_many_senders_as_there_are_slots(void **state) {
  (void)state;
  static struct transport_peer *peers[SHM_SLOTS];
  struct end sender, receiver;
  unsigned char address[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof address;
  struct transport_peer *more = NULL;
  end_open(&sender);
  end_open(&receiver);
  assert_works(suite.transport->address(receiver.worker, address, &size));
  struct rlimit files = {4 * SHM_SLOTS, 4 * SHM_SLOTS};
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
    print_message("the limit of open files cannot be raised: not tried\n");
    end_close(&sender);
    end_close(&receiver);
    skip();
  }
  for (uint32_t i = 0; i < SHM_SLOTS; i++)
    assert_works(suite.transport->connect(sender.worker, address, size, NULL, &peers[i]));
  assert_int_equal(suite.transport->connect(sender.worker, address, size, NULL, &more), WEFT_ERR_LIMIT);
  assert_null(more);
  for (uint32_t i = 0; i < SHM_SLOTS; i += 2)
    suite.transport->disconnect(peers[i]);
  suite.transport->progress(receiver.worker); // lets go of their slots
  for (uint32_t i = 0; i < SHM_SLOTS; i += 2)
    assert_works(suite.transport->connect(sender.worker, address, size, NULL, &peers[i]));
  assert_int_equal(suite.transport->connect(sender.worker, address, size, NULL, &more), WEFT_ERR_LIMIT);
  end_close(&sender);
  end_close(&receiver);
}

// Makes the proof of a worker, says where it is, and takes it away a moment after its reader has looked.
static void have_a_worker_for_a_moment(int to_reader, _Atomic int *looks, bool ends) {
  struct shm_proof proof = {
      .magic = SHM_PROOF_MAGIC, .version = SHM_VERSION, .pid = (uint32_t)getpid(), .cookie = SHORT_LIVED};
  int fd;
  if (shm_proof_create(&proof, &fd) != 0 || write(to_reader, &fd, sizeof fd) != sizeof fd)
    _exit(1);
  while (atomic_load(looks) == 0)
    sched_yield();
  if (ends)
    _exit(0);
  close(fd);
  for (;;)
    pause();
}

// Whoever looks at that very moment learns that the worker is gone, and not that its process lies: that one would be
// an end of what it asked for, and the other is none.
static void test_a_worker_that_goes_away_is_no_liar(void **state) {
  (void)state;
  _Atomic int *looks = mmap(NULL, sizeof *looks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(looks != MAP_FAILED);
  for (int i = 0; i < SHORT_LIVES; i++) {
    int ends[2], fd, rc;
    atomic_store(looks, 0);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
      have_a_worker_for_a_moment(ends[1], looks, i % 2 == 0);
    assert_int_equal(read(ends[0], &fd, sizeof fd), sizeof fd);
    char path[64];
    struct stat status;
    struct shm_proof proof;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)child, fd);
    assert_int_equal(stat(path, &status), 0);
    struct shm_file file = {.type = S_IFREG, .device = status.st_dev, .inode = status.st_ino};
    while ((rc = shm_proof_read(child, fd, &file, SHORT_LIVED, &proof)) == 0)
      atomic_fetch_add(looks, 1);
    if (rc != WEFT_ERR_UNREACHABLE)
      fail_msg("life %d: %s", i, weft_last_error());
    assert_true(atomic_load(looks) > 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
  }
  munmap(looks, sizeof *looks);
}

// Senders that die without a word leave their slots to others.
static void test_slots_of_the_dead_are_used_again(void **state) {
  (void)state;
  enum { DEAD = 20 };
  struct end receiver;
  unsigned char address[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof address;
  end_open(&receiver);
  assert_works(suite.transport->address(receiver.worker, address, &size));
  for (int i = 0; i < DEAD; i++) {
    pid_t child = fork();
    if (child == 0) {
      struct transport_worker *worker;
      struct transport_peer *peer = NULL;
      struct transport_options options = {.size = sizeof options};
      struct transport_request request = {.op = WEFT_TRANSFER_WRITE, .message = "last words", .message_size = 11};
      bool sent = suite.transport->open(&options, &worker) == 0 &&
                  suite.transport->connect(worker, address, size, NULL, &peer) == 0;
      request.peer = peer;
      sent = sent && suite.transport->prepare(&request) == 0 && suite.transport->post(&request) == 0;
      _exit(sent && request.state == 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
  struct shm_worker *worker = (struct shm_worker *)receiver.worker;
  suite.transport->progress(receiver.worker);
  assert_int_equal(receiver.messages, DEAD); // what they had sent comes
  atomic_store(&worker->page->sweep, 1);
  for (int i = 0; i <= SHM_LOOK_EVERY; i++)
    suite.transport->progress(receiver.worker);
  for (uint32_t i = 0; i < SHM_SLOTS; i++)
    assert_int_equal(atomic_load(&worker->page->slots[i].owner), 0);
  assert_int_equal(receiver.messages, DEAD);
  end_close(&receiver);
}

static void test_other_hosts_are_out_of_reach(void **state) {
  (void)state;
  struct end here, there;
  unsigned char address[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof address;
  struct transport_peer *peer = NULL;
  end_open(&here);
  suite.settings[1] = "host=other";
  end_open(&there);
  suite.settings[1] = NULL;
  assert_works(suite.transport->address(there.worker, address, &size));
  assert_int_equal(suite.transport->connect(here.worker, address, size, NULL, &peer), WEFT_ERR_UNREACHABLE);
  assert_non_null(strstr(weft_last_error(), "another host"));
  end_close(&there);
  end_close(&here);
}

// A process of another user, and one in another pid namespace: each says what is in its way.
static void expect_refusal(int (*change)(void), const char *words) {
  struct end end;
  unsigned char address[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof address;
  if (geteuid() != 0) {
    print_message("not root: not tried\n");
    skip();
  }
  end_open(&end);
  assert_works(suite.transport->address(end.worker, address, &size));
  pid_t child = fork();
  if (child == 0) {
    if (change() != 0)
      _exit(77);
    pid_t inner = fork(); // a new pid namespace begins with the next child
    if (inner == 0) {
      struct transport_worker *worker;
      struct transport_peer *peer;
      struct transport_options options = {.size = sizeof options};
      if (suite.transport->open(&options, &worker) != 0)
        _exit(2);
      int rc = suite.transport->connect(worker, address, size, NULL, &peer);
      _exit(rc == WEFT_ERR_UNREACHABLE && strstr(weft_last_error(), words) ? 0 : 1);
    }
    int status = 0;
    waitpid(inner, &status, 0);
    _exit(WEXITSTATUS(status));
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  end_close(&end);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    print_message("not allowed here: not tried\n");
    skip();
  }
  assert_int_equal(status, 0);
}

static int become_nobody(void) {
  return setgid(65534) || setuid(65534);
}

static int leave_pid_namespace(void) {
  return unshare(CLONE_NEWPID);
}

static void test_another_user_is_reported(void **state) {
  (void)state;
  expect_refusal(become_nobody, "processes of one user");
}

static void test_another_pid_namespace_is_reported(void **state) {
  (void)state;
  expect_refusal(leave_pid_namespace, "pid namespace");
}

// A memfd that may shrink is not mapped: its owner could have its peers die of SIGBUS.
static void test_memory_that_may_shrink_is_not_mapped(void **state) {
  (void)state;
  if (!process_vm_works("memory that may shrink"))
    skip();
  struct pair pair;
  struct transport_region *region;
  struct transport_remote *remote;
  unsigned char key[TRANSPORT_MAX_KEY];
  size_t size = sizeof key;
  pair_open(&pair, false);
  int fd = memfd_create("weft-shrinks", MFD_CLOEXEC);
  assert_int_equal(ftruncate(fd, 8192), 0);
  unsigned char *bytes = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  struct transport_memory memory = {.address = bytes, .length = 8192, .device = -1, .fd = fd};
  assert_works(suite.transport->reg(pair.b->worker, &memory, &region));
  assert_works(suite.transport->pack(region, key, &size));
  assert_works(suite.transport->import(pair.to_b, key, size, &remote));
  assert_null(suite.transport->map(remote));
  struct place local;
  place_open(&local, pair.a, NULL, 8192);
  place_fill(&local, 3);
  struct transport_piece piece = {.local = local.region,
                                  .remote = remote,
                                  .local_address = (uintptr_t)local.bytes,
                                  .remote_address = (uintptr_t)bytes,
                                  .length = 8192};
  struct transport_request request;
  int32_t status = 99;
  request_init(&request, pair.to_b, WEFT_TRANSFER_WRITE, &piece, 1);
  request.status = &status;
  assert_int_equal(request_run(&pair, &request), 0);
  for (uint64_t i = 0; i < 8192; i++)
    assert_int_equal(bytes[i], pattern(3, i));
  munmap(bytes + 4096, 4096); // without taking it back: the transfer fails, and nobody dies
  assert_int_equal(request_run(&pair, &request), WEFT_ERR_NOT_FOUND);
  assert_int_equal(status, WEFT_ERR_NOT_FOUND);
  place_close(&local);
  suite.transport->unreg(region);
  munmap(bytes, 4096);
  close(fd);
  pair_close(&pair);
}

// Hosts of tests have no huge pages. A mapping that reserves none can be made there, as long as nobody touches it.
static bool wrap_reserves_nothing;

void *__real_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
  return __real_mmap(address, size, protection, flags | (wrap_reserves_nothing ? MAP_NORESERVE : 0), fd, offset);
}

static int count_mappings(const char *name) {
  char line[512];
  int count = 0;
  FILE *maps = fopen("/proc/self/maps", "re");
  assert_non_null(maps);
  while (fgets(line, sizeof line, maps))
    count += strstr(line, name) != NULL;
  fclose(maps);
  return count;
}

// The kernel unmaps only whole huge pages, and a region may end within one.
static void test_huge_pages_are_unmapped(void **state) {
  (void)state;
  enum { MIB = 1 << 20 };
  struct transport_region *region;
  struct transport_remote *remote;
  unsigned char key[TRANSPORT_MAX_KEY];
  size_t size = sizeof key;
  int fd = memfd_create("weft-huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0 || status.st_blksize != 2 * MIB)
    skip(); // this kernel has no huge pages, or larger ones
  assert_int_equal(ftruncate(fd, 8 * MIB), 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  wrap_reserves_nothing = true;
  unsigned char *bytes = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert_ptr_not_equal(bytes, MAP_FAILED);
  struct pair pair;
  pair_open(&pair, false);
  struct transport_memory memory = {
      .address = bytes + MIB, .length = 4 * MIB, .device = -1, .fd = fd, .fd_offset = MIB};
  assert_works(suite.transport->reg(pair.b->worker, &memory, &region));
  assert_works(suite.transport->pack(region, key, &size));
  assert_works(suite.transport->import(pair.to_b, key, size, &remote));
  assert_non_null(suite.transport->map(remote));
  assert_int_equal(count_mappings("weft-huge"), 2); // the owner's, too
  suite.transport->release(remote);
  assert_int_equal(count_mappings("weft-huge"), 1);
  wrap_reserves_nothing = false;
  suite.transport->unreg(region);
  pair_close(&pair);
  munmap(bytes, 8 * MIB);
  close(fd);
}

// What a broken neighbour writes into its ring harms nobody else.
static void test_nonsense_in_a_ring(void **state) {
  (void)state;
  static const uint32_t sizes[] = {TRANSPORT_MAX_MESSAGE + 1, UINT32_MAX, 3000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct pair pair;
    pair_open(&pair, false);
    struct shm_peer *peer = (struct shm_peer *)pair.to_b;
    struct shm_record record = {.size = sizes[i]};
    memcpy(peer->ring, &record, sizeof record);
    atomic_store(&peer->slot->head, sizes[i] == 3000 ? 2000 : SHM_RING);
    shm_ring_notify(peer);
    pair_drive(&pair);
    assert_int_equal(pair.b->messages, 0);
    struct transport_request request; // from the other end all is well
    request_init(&request, pair.to_a, WEFT_TRANSFER_WRITE, NULL, 0);
    request.message = "well";
    request.message_size = 5;
    assert_int_equal(request_run(&pair, &request), 0);
    pair_drive(&pair);
    assert_int_equal(pair.a->messages, 1);
    pair_close(&pair);
  }
}

// A sleeping sender whose messages wait for room is woken when there is some.
static void test_room_wakes_the_sender(void **state) {
  (void)state;
  enum { COUNT = 40 };
  static struct transport_request requests[COUNT];
  static unsigned char message[TRANSPORT_MAX_MESSAGE];
  struct pair pair;
  pair_open(&pair, false);
  for (int i = 0; i < COUNT; i++) {
    request_init(&requests[i], pair.to_b, WEFT_TRANSFER_WRITE, NULL, 0);
    requests[i].message = message;
    requests[i].message_size = sizeof message;
    assert_works(suite.transport->prepare(&requests[i]));
    assert_works(suite.transport->post(&requests[i]));
  }
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  while (!request_ended(&requests[COUNT - 1])) {
    while (suite.transport->arm(pair.a->worker) != 0)
      suite.transport->progress(pair.a->worker);
    suite.transport->progress(pair.b->worker); // makes room
    struct pollfd poll_fd = {.fd = suite.transport->fd(pair.a->worker), .events = POLLIN};
    if (poll(&poll_fd, 1, DEADLINE_MS) != 1 || clock_passed(deadline_ns))
      fail_msg("there was room, and nobody told the sender, who had %d messages more", COUNT);
    suite.transport->progress(pair.a->worker);
  }
  suite.transport->progress(pair.b->worker);
  assert_int_equal(pair.b->messages, COUNT);
  for (int i = 0; i < COUNT; i++)
    suite.transport->unprepare(&requests[i]);
  pair_close(&pair);
}

// A large request is moved in progress(), also for those who sleep, and in turn with others.
static void test_large_requests_take_turns(void **state) {
  (void)state;
  enum { LARGE = 64 << 20, SMALL = 1 << 20 };
  struct pair pair;
  struct place local, there;
  struct transport_request requests[2];
  pair_open(&pair, false);
  place_open(&local, pair.a, NULL, LARGE);
  place_open(&there, pair.b, pair.to_b, LARGE);
  struct transport_piece pieces[2] = {piece_of(&local, 0, &there, 0, LARGE), piece_of(&local, 0, &there, 0, SMALL)};
  for (int i = 0; i < 2; i++) {
    request_init(&requests[i], pair.to_b, WEFT_TRANSFER_WRITE, &pieces[i], 1);
    assert_works(suite.transport->prepare(&requests[i]));
  }
  while (suite.transport->arm(pair.a->worker) != 0)
    suite.transport->progress(pair.a->worker);
  assert_works(suite.transport->post(&requests[0]));
  struct pollfd poll_fd = {.fd = suite.transport->fd(pair.a->worker), .events = POLLIN};
  assert_int_equal(poll(&poll_fd, 1, DEADLINE_MS), 1);
  assert_works(suite.transport->post(&requests[1]));
  assert_int_equal(requests[0].state, TRANSPORT_IN_FLIGHT);
  for (int i = 0; i < 3; i++)
    suite.transport->progress(pair.a->worker);
  assert_int_equal(requests[1].state, 0);
  assert_int_equal(requests[0].state, TRANSPORT_IN_FLIGHT);
  suite.transport->cancel(&requests[0]);
  pair_wait(&pair, request_ended, &requests[0], "the end of a large request");
  assert_int_equal(requests[0].state, WEFT_ERR_CANCELED);
  for (int i = 0; i < 2; i++)
    suite.transport->unprepare(&requests[i]);
  place_close(&there);
  place_close(&local);
  pair_close(&pair);
}

// --- what goes past the caches: lists of pieces of any length and alignment, to and from two regions by turns ---

// SHM_STREAM in all, but for sanitizers, which look at each byte; a unit is more than one run.
enum { UNITS = SUPPORT_SANITIZED ? 225 : 900, UNIT = 18701, GROUP = 7 };

struct units {
  struct pair pair;
  struct place local, there[2];
  struct transport_piece pieces[UNITS];
  int32_t status[UNITS];
};

static uint32_t unit_here(uint32_t i) {
  return i * 389 % UNITS;
}
static uint32_t unit_there(uint32_t i) {
  return i * 7 % UNITS;
}
static struct place *region_of(struct units *units, uint32_t i) {
  return &units->there[i / GROUP % 2];
}

static void units_open(struct units *units) {
  pair_open(&units->pair, false);
  place_open(&units->local, units->pair.a, NULL, (uint64_t)UNITS * UNIT);
  for (int i = 0; i < 2; i++)
    place_open(&units->there[i], units->pair.b, units->pair.to_b, (uint64_t)UNITS * UNIT);
  for (uint32_t i = 0; i < UNITS; i++)
    units->pieces[i] = piece_of(&units->local, (uint64_t)unit_here(i) * UNIT, region_of(units, i),
                                (uint64_t)unit_there(i) * UNIT, UNIT);
}

// What was asked for is there, and nothing else was touched.
static void units_check(struct units *units, enum weft_transfer_op op, uint64_t seed) {
  for (uint32_t i = 0; i < UNITS; i++) {
    uint64_t here = (uint64_t)unit_here(i) * UNIT, there = (uint64_t)unit_there(i) * UNIT;
    uint64_t length = units->pieces[i].length;
    struct place *to = op == WEFT_TRANSFER_WRITE ? region_of(units, i) : &units->local;
    uint64_t at = op == WEFT_TRANSFER_WRITE ? there : here, from = op == WEFT_TRANSFER_WRITE ? here : there;
    assert_int_equal(units->status[i], 0);
    place_check(to, at, length, seed, from);
    place_check(to, at + length, UNIT - length, 7, at + length);
  }
}

// All of them, then shorter ones in rows of a kind, so that pieces of no bytes come first, last, and many in a row.
static uint64_t units_shorten(struct units *units, uint64_t round, uint64_t *random) {
  uint64_t total = 0, kind = 0;
  for (uint32_t i = 0; i < UNITS; i++) {
    kind = i % 5 == 0 || i + 5 > UNITS ? random_next(random) % 3 : kind;
    units->pieces[i].length = round == 0 ? UNIT : kind == 0 ? 0 : random_next(random) % (kind == 1 ? 200 : UNIT);
    total += units->pieces[i].length;
    units->status[i] = 99;
  }
  return total;
}

static void units_move(struct units *units, enum weft_transfer_op op, uint64_t *random) {
  struct transport_request request;
  for (uint32_t i = 0; i < UNITS; i++)
    units->pieces[i].length = UNIT;
  request_init(&request, units->pair.to_b, op, units->pieces, UNITS);
  request.status = units->status;
  assert_works(suite.transport->prepare(&request));
  for (uint64_t round = op == WEFT_TRANSFER_WRITE ? 0 : 1; round < 2; round++) {
    uint64_t total = units_shorten(units, round, random);
    place_fill(&units->local, op == WEFT_TRANSFER_WRITE ? 10 + round : 7);
    for (int i = 0; i < 2; i++)
      place_fill(&units->there[i], op == WEFT_TRANSFER_WRITE ? 7 : 10 + round);
    assert_works(suite.transport->post(&request));
    pair_wait(&units->pair, request_ended, &request, "the end of a long list");
    assert_int_equal(request.state, 0);
    assert_int_equal(request.moved, total);
    units_check(units, op, 10 + round);
  }
  suite.transport->unprepare(&request);
}

static void test_long_lists_of_any_lengths(void **state) {
  (void)state;
  struct units *units = calloc(1, sizeof *units);
  assert_non_null(units);
  units_open(units);
  uint64_t random = 5;
  units_move(units, WEFT_TRANSFER_WRITE, &random);
  units_move(units, WEFT_TRANSFER_READ, &random);
  for (int i = 0; i < 2; i++)
    place_close(&units->there[i]);
  place_close(&units->local);
  pair_close(&units->pair);
  free(units);
}

struct closing {
  struct shm_worker *worker;
  uint32_t gate;
  _Atomic bool over;
  bool closed;
};

static void *close_gate(void *arg) {
  struct closing *closing = arg;
  closing->closed = shm_gate_close(closing->worker, closing->gate);
  atomic_store(&closing->over, true);
  return NULL;
}

// It may have lost its processor for long; that it was stopped cannot be.
static void test_a_thread_of_the_same_process_is_waited_for(void **state) {
  (void)state;
  struct pair pair;
  struct place there;
  pthread_t thread;
  uint32_t at;
  pair_open(&pair, false);
  place_open(&there, pair.b, pair.to_b, 1000);
  struct shm_remote *remote = (struct shm_remote *)there.remote;
  struct shm_peer *peer = (struct shm_peer *)pair.to_b;
  struct closing closing = {.worker = (struct shm_worker *)pair.b->worker, .gate = remote->gate_index};
  assert_true(shm_gate_enter(peer, remote, &at));
  assert_int_equal(pthread_create(&thread, NULL, close_gate, &closing), 0);
  for (uint64_t until_ns = clock_deadline_ms(2 * SHM_FENCE_MS); !clock_passed(until_ns);)
    sched_yield();
  assert_false(atomic_load(&closing.over));
  shm_gate_leave(peer, remote, at);
  pthread_join(thread, NULL);
  assert_true(closing.closed);
  place_close(&there);
  pair_close(&pair);
}

// Before progress() has reported that the peer is gone.
static void test_a_write_to_one_that_has_closed_is_to_a_lost_peer(void **state) {
  (void)state;
  struct pair pair;
  struct place local, there;
  struct transport_request request;
  pair_open(&pair, false);
  place_open(&local, pair.a, NULL, 1000);
  place_open(&there, pair.b, pair.to_b, 1000);
  struct transport_piece piece = piece_of(&local, 0, &there, 0, 1000);
  request_init(&request, pair.to_b, WEFT_TRANSFER_WRITE, &piece, 1);
  assert_works(suite.transport->prepare(&request));
  end_close(pair.b);
  place_lost_worker(&there);
  suite.transport->post(&request);
  assert_int_equal(request.state, WEFT_ERR_PEER_LOST);
  assert_non_null(strstr(request.why, "closed its transport"));
  suite.transport->unprepare(&request);
  place_close(&there);
  place_close(&local);
  pair_close(&pair);
}

static void *fence(void *arg) {
  suite.transport->fence(arg);
  return NULL;
}

// While a fence waits for a thread of its peer, the peer connects anew: that way is not the fence's.
static void test_a_fence_leaves_what_is_connected_later(void **state) {
  (void)state;
  struct pair pair;
  struct place there;
  pthread_t thread;
  uint32_t at;
  pair_open(&pair, false);
  place_open(&there, pair.b, pair.to_b, 1000);
  const struct shm_remote *remote = (struct shm_remote *)there.remote;
  const struct shm_peer *peer = (struct shm_peer *)pair.to_b;
  assert_true(shm_gate_enter(peer, remote, &at));
  assert_int_equal(pthread_create(&thread, NULL, fence, pair.to_a), 0);
  for (uint64_t until_ns = clock_deadline_ms(DEADLINE_MS); !shm_gate_fenced(peer) && !clock_passed(until_ns);)
    sched_yield();
  const struct shm_peer *later = (struct shm_peer *)end_connect(pair.a, pair.b);
  for (uint64_t until_ns = clock_deadline_ms(SHM_FENCE_MS / 4); !clock_passed(until_ns);)
    sched_yield();
  shm_gate_leave(peer, remote, at);
  pthread_join(thread, NULL);
  assert_true(shm_gate_fenced(peer));
  assert_false(shm_gate_fenced(later));
  place_close(&there);
  pair_close(&pair);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_as_many_senders_as_there_are_slots),
      cmocka_unit_test(test_a_worker_that_goes_away_is_no_liar),
      cmocka_unit_test(test_slots_of_the_dead_are_used_again),
      cmocka_unit_test(test_other_hosts_are_out_of_reach),
      cmocka_unit_test(test_another_user_is_reported),
      cmocka_unit_test(test_another_pid_namespace_is_reported),
      cmocka_unit_test(test_memory_that_may_shrink_is_not_mapped),
      cmocka_unit_test(test_huge_pages_are_unmapped),
      cmocka_unit_test(test_nonsense_in_a_ring),
      cmocka_unit_test(test_room_wakes_the_sender),
      cmocka_unit_test(test_large_requests_take_turns),
      cmocka_unit_test(test_long_lists_of_any_lengths),
      cmocka_unit_test(test_a_thread_of_the_same_process_is_waited_for),
      cmocka_unit_test(test_a_write_to_one_that_has_closed_is_to_a_lost_peer),
      cmocka_unit_test(test_a_fence_leaves_what_is_connected_later),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
