// Lies that only shared memory of processes allows: pages and descriptors of another process, and false contents of
// pages. The liar knows the format, and seals with its own secret.
#include "transport/shm/shm.h"
#include "lies/lies.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/temporary.h"

// --- a process that lies about its worker: a child with the same descriptors ---

struct liar {
  pid_t pid;
  int proof, page, bell[2]; // the same numbers here and there
  struct shm_home home;     // what it seals with
  struct shm_proof says;
  bool no_seals, no_lock; // of the proof
};

static uint64_t inode_of(int fd) {
  struct stat status;
  assert_int_equal(fstat(fd, &status), 0);
  return status.st_ino;
}

static int page_new(uint64_t cookie) {
  int fd = memfd_create("lies-page", MFD_ALLOW_SEALING);
  assert_int_equal(ftruncate(fd, (off_t)SHM_PAGE_SIZE), 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  struct shm_page *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert_true(page != MAP_FAILED);
  page->magic = SHM_MAGIC;
  page->version = SHM_VERSION;
  page->cookie = cookie;
  munmap(page, 4096);
  return fd;
}

// What a lawful worker would have; the caller changes what it lies about.
static void liar_make(struct liar *liar) {
  memset(liar, 0, sizeof *liar);
  uint64_t cookie = 0x11a5;
  memset(liar->home.secret, 7, sizeof liar->home.secret);
  liar->page = page_new(cookie);
  assert_int_equal(pipe(liar->bell), 0);
  liar->says = (struct shm_proof){.magic = SHM_PROOF_MAGIC,
                                  .version = SHM_VERSION,
                                  .cookie = cookie,
                                  .page_fd = liar->page,
                                  .bell_fd = liar->bell[1]};
  liar->says.page_inode = inode_of(liar->page);
  liar->says.bell_inode = inode_of(liar->bell[1]);
  memcpy(liar->says.secret, liar->home.secret, sizeof liar->says.secret);
}

// The child makes its proof, says so, and sits there until it is killed.
static void liar_start(struct liar *liar) {
  int told[2];
  pid_t parent = getpid();
  assert_int_equal(pipe(told), 0);
  liar->proof = memfd_create("lies-proof", MFD_ALLOW_SEALING);
  liar->pid = fork();
  if (liar->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (liar->says.pid == 0)
      liar->says.pid = (uint32_t)getpid();
    bool done = pwrite(liar->proof, &liar->says, sizeof liar->says, 0) == (ssize_t)sizeof liar->says;
    if (!liar->no_seals)
      done &= fcntl(liar->proof, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0;
    if (!liar->no_lock)
      done &= shm_proof_lock(liar->proof) == 0;
    if (!done || write(told[1], "", 1) != 1)
      _exit(1);
    while (getppid() == parent)
      pause();
    _exit(0);
  }
  char byte;
  close(told[1]);
  assert_int_equal(read(told[0], &byte, 1), 1);
  close(told[0]);
}

static void liar_end(struct liar *liar) {
  kill(liar->pid, SIGKILL);
  assert_int_equal(waitpid(liar->pid, NULL, 0), liar->pid);
  close(liar->proof);
  close(liar->page);
  close(liar->bell[0]);
  close(liar->bell[1]);
}

static size_t liar_address(const struct liar *liar, pid_t pid, unsigned char *bytes, struct end *end) {
  const struct shm_worker *worker = (const struct shm_worker *)end->worker;
  struct shm_address address = {.host = {worker->host[0], worker->host[1]},
                                .pid_space = worker->pid_space,
                                .cookie = liar->says.cookie,
                                .pid = (uint32_t)pid,
                                .proof_fd = liar->proof};
  address.proof_inode = inode_of(liar->proof);
  size_t size = TRANSPORT_MAX_ADDRESS;
  assert_works(shm_address_pack(&liar->home, LIES_LIAR, &address, bytes, &size));
  return size;
}

// What comes of it; the peer is left connected.
static int liar_connect(struct liar *liar, struct end *victim, pid_t pid, struct transport_peer **peer) {
  unsigned char address[TRANSPORT_MAX_ADDRESS];
  size_t size = liar_address(liar, pid, address, victim);
  *peer = NULL;
  int rc = suite.transport->connect(victim->worker, address, size, LIES_LIAR, peer);
  if (rc != 0)
    assert_true(strlen(weft_last_error()) > 10);
  return rc;
}

static void victim_open(struct end *victim) {
  suite.owner = LIES_VICTIM;
  end_open(victim);
}

static void expect_refused(struct liar *liar, int err, const char *words) {
  struct end victim;
  struct transport_peer *peer;
  victim_open(&victim);
  liar_start(liar);
  int rc = liar_connect(liar, &victim, liar->pid, &peer);
  if (rc != err || !strstr(weft_last_error(), words))
    fail_msg("%s: %s; it should be %s and say \"%s\"", weft_err_name(rc), weft_last_error(), weft_err_name(err), words);
  liar_end(liar);
  end_close(&victim);
}

// A liar who lies about nothing is let in: the cases below are refused for what they lie about.
static void test_the_truth(void **state) {
  (void)state;
  struct liar liar;
  struct end victim;
  struct transport_peer *peer;
  victim_open(&victim);
  liar_make(&liar);
  liar_start(&liar);
  assert_works(liar_connect(&liar, &victim, liar.pid, &peer));
  liar_end(&liar);
  end_close(&victim);
}

// It holds a descriptor of a page that it has not made its own: somebody handed it over.
static void test_page_of_another_process(void **state) {
  (void)state;
  struct liar liar;
  liar_make(&liar);
  liar.no_lock = true;
  expect_refused(&liar, WEFT_ERR_AUTH, "does not hold the proof");
}

static void test_page_that_is_not_sealed(void **state) {
  (void)state;
  struct liar liar;
  liar_make(&liar);
  liar.no_seals = true;
  expect_refused(&liar, WEFT_ERR_AUTH, "not a sealed memfd");
}

static void test_page_of_another_pid_or_worker(void **state) {
  (void)state;
  struct liar liar;
  liar_make(&liar);
  liar.says.pid = (uint32_t)getpid();
  expect_refused(&liar, WEFT_ERR_UNREACHABLE, "another one is there");
  liar_make(&liar);
  liar.says.magic++;
  expect_refused(&liar, WEFT_ERR_AUTH, "not the proof");
}

// Its page was handed to the victim, and the address names the victim's process and its descriptor there.
static void test_page_that_was_handed_to_the_victim(void **state) {
  (void)state;
  struct liar liar;
  struct end victim;
  struct transport_peer *peer;
  victim_open(&victim);
  liar_make(&liar);
  liar_start(&liar);
  assert_int_equal(liar_connect(&liar, &victim, getpid(), &peer), WEFT_ERR_UNREACHABLE);
  assert_int_equal(shm_proof_lock(liar.proof), WEFT_ERR_SYSTEM); // the liar holds it
  liar.says.cookie = ((struct shm_worker *)victim.worker)->home->cookie;
  assert_int_equal(liar_connect(&liar, &victim, getpid(), &peer), WEFT_ERR_AUTH);
  liar_end(&liar);
  end_close(&victim);
}

// What it names as its own page or doorbell is another kind of file: not even opened, for that may do something.
static void test_descriptors_of_other_kinds(void **state) {
  (void)state;
  struct liar liar;
  char folder[128], path[160];
  support_temporary(folder, sizeof folder, "weft-lies");
  assert_non_null(mkdtemp(folder)); // the same program runs several times at once
  snprintf(path, sizeof path, "%s/it", folder);
  assert_int_equal(mkfifo(path, 0600), 0);
  int fifo = open(path, O_PATH);
  liar_make(&liar);
  liar.says.page_fd = fifo;
  liar.says.page_inode = inode_of(fifo);
  expect_refused(&liar, WEFT_ERR_UNREACHABLE, "is gone");
  liar_make(&liar);
  liar.says.bell_fd = fifo;
  liar.says.bell_inode = inode_of(fifo);
  expect_refused(&liar, WEFT_ERR_UNREACHABLE, "is gone");
  close(fifo);
  unlink(path);
  int file = open(path, O_CREAT | O_EXCL | O_RDWR, 0600); // a file, but no page
  assert_true(file >= 0);
  unlink(path);
  rmdir(folder);
  liar_make(&liar);
  liar.says.page_fd = file;
  liar.says.page_inode = inode_of(file);
  expect_refused(&liar, WEFT_ERR_UNREACHABLE, "is gone");
  close(file);
}

// Whether a process other than this one sees the lock of the victim's proof.
static bool is_proven(const struct end *victim) {
  const struct shm_home *home = ((const struct shm_worker *)victim->worker)->home;
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    struct shm_proof proof;
    _exit(shm_proof_read(parent, home->proof_fd, &home->proof, home->cookie, &proof) != 0);
  }
  int status = 1;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status == 0;
}

// The victim's own proof as the liar's page, or as its region: whoever opens and closes it loses its lock.
static void test_the_victims_proof_stays_locked(void **state) {
  (void)state;
  struct liar liar;
  struct end victim;
  struct transport_peer *peer;
  victim_open(&victim);
  const struct shm_home *home = ((const struct shm_worker *)victim.worker)->home;
  assert_true(is_proven(&victim));
  liar_make(&liar);
  liar.says.page_fd = home->proof_fd; // which the child has too
  liar.says.page_inode = home->proof.inode;
  liar_start(&liar);
  assert_int_equal(liar_connect(&liar, &victim, liar.pid, &peer), WEFT_ERR_AUTH);
  assert_true(is_proven(&victim));
  liar_end(&liar);
  liar_make(&liar);
  liar_start(&liar);
  assert_works(liar_connect(&liar, &victim, liar.pid, &peer));
  unsigned char bytes[TRANSPORT_MAX_KEY];
  size_t size = sizeof bytes;
  struct shm_key key = {.cookie = liar.says.cookie,
                        .id = 0, // as the gates of its page have it
                        .length = 1,
                        .device = home->proof.device,
                        .inode = home->proof.inode,
                        .fd = home->proof_fd,
                        .read_only = 1};
  assert_works(shm_key_pack(&liar.home, &key, bytes, &size));
  int rc = lies_import(peer, bytes, size);
  assert_true(rc < 0);
  assert_true(is_proven(&victim));
  int found;
  assert_true(shm_peer_descriptor(peer, home->proof_fd, &found) < 0); // what the transport cuda does
  assert_true(is_proven(&victim));
  liar_end(&liar);
  end_close(&victim);
}

// A window that may shrink under who maps it, or that is shorter than its key says.
static void test_windows_that_are_none(void **state) {
  (void)state;
  struct liar liar;
  struct end victim;
  struct transport_peer *peer;
  victim_open(&victim);
  liar_make(&liar);
  int shrinks = memfd_create("lies-shrinks", MFD_ALLOW_SEALING), shorter = page_new(0);
  assert_int_equal(ftruncate(shrinks, 8192), 0);
  const struct {
    int fd;
    uint64_t offset, length;
  } windows[] = {{shrinks, 0, 8192},       {shorter, 0, SHM_PAGE_SIZE + 1},    {shorter, SHM_PAGE_SIZE, 1},
                 {shorter, UINT64_MAX, 2}, {shorter, UINT64_MAX - 4095, 4096}, {shorter, 1, UINT64_MAX - 1}};
  liar_start(&liar);
  assert_works(liar_connect(&liar, &victim, liar.pid, &peer));
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
    unsigned char bytes[TRANSPORT_MAX_KEY];
    size_t size = sizeof bytes;
    struct shm_key key = {
        .cookie = liar.says.cookie, .length = windows[i].length, .fd = windows[i].fd, .fd_offset = windows[i].offset};
    key.inode = inode_of(windows[i].fd);
    key.device = ((struct shm_worker *)victim.worker)->home->file.device;
    assert_works(shm_key_pack(&liar.home, &key, bytes, &size));
    if (!((struct shm_worker *)victim.worker)->no_map && lies_import(peer, bytes, size) == 0)
      fail_msg("window %zu was mapped", i);
  }
  liar_end(&liar);
  close(shrinks);
  close(shorter);
  end_close(&victim);
}

// --- another user ---

// What a process of another user says: its address, then keys of memory with and without a descriptor.
struct says {
  unsigned char address[TRANSPORT_MAX_ADDRESS], keys[2][TRANSPORT_MAX_KEY];
  size_t address_size, key_sizes[2];
};

static _Noreturn void be_another_user(int to, pid_t parent) {
  static unsigned char plain[LIES_BYTES];
  static struct says says;
  struct end end;
  struct place window;
  struct transport_region *region;
  if (setgid(65534) != 0 || setuid(65534) != 0)
    _exit(1);
  prctl(PR_SET_PDEATHSIG, SIGKILL); // which a change of user clears
  suite.owner = LIES_LIAR;
  end_open(&end);
  says.address_size = sizeof says.address;
  says.key_sizes[0] = says.key_sizes[1] = TRANSPORT_MAX_KEY;
  place_show(&window, &end, WEFT_MEMORY_HOST, false, LIES_BYTES);
  const struct transport_memory memory = {.address = plain, .length = sizeof plain, .device = -1, .fd = -1};
  bool done = suite.transport->address(end.worker, says.address, &says.address_size) == 0 &&
              suite.transport->pack(window.region, says.keys[0], &says.key_sizes[0]) == 0 &&
              suite.transport->reg(end.worker, &memory, &region) == 0 &&
              suite.transport->pack(region, says.keys[1], &says.key_sizes[1]) == 0;
  if (!done || write(to, &says, sizeof says) != (ssize_t)sizeof says)
    _exit(1);
  while (getppid() == parent)
    pause();
  _exit(0);
}

// Of a container, root may lack CAP_SYS_PTRACE, which looking into another user's process takes.
static bool may_look_into(pid_t pid) {
  char path[32], target[256];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
  return readlink(path, target, sizeof target) > 0;
}

// Root may reach the memory of everybody, also of a program with more rights that another user's process becomes.
static void test_memory_of_another_user(void **state) {
  (void)state;
  static struct says says;
  struct end victim;
  struct transport_peer *peer;
  int from[2];
  NEEDS(geteuid() == 0, "it takes root to become another user");
  victim_open(&victim);
  assert_int_equal(pipe(from), 0);
  pid_t parent = getpid(), child = fork();
  if (child == 0)
    be_another_user(from[1], parent);
  close(from[1]);
  size_t got = 0;
  while (got < sizeof says) {
    ssize_t more = read(from[0], (char *)&says + got, sizeof says - got);
    assert_true(more > 0);
    got += (size_t)more;
  }
  close(from[0]);
  bool looks = may_look_into(child);
  if (looks) {
    assert_works(suite.transport->connect(victim.worker, says.address, says.address_size, LIES_LIAR, &peer));
    if (!((struct shm_worker *)victim.worker)->no_map)
      assert_int_equal(lies_import(peer, says.keys[0], says.key_sizes[0]), 0);
    assert_int_equal(lies_import(peer, says.keys[1], says.key_sizes[1]), WEFT_ERR_UNREACHABLE);
    assert_non_null(strstr(weft_last_error(), "is of user 65534"));
  }
  kill(child, SIGKILL);
  assert_int_equal(waitpid(child, NULL, 0), child);
  end_close(&victim);
  NEEDS(looks, "it takes CAP_SYS_PTRACE to look into another user's process");
}

// --- what stands in pages ---

// A slot that says that its sender's doorbell is some pipe: no byte is written there.
static void test_a_bell_that_is_anothers(void **state) {
  (void)state;
  struct liar liar;
  struct end victim;
  int canary[2];
  victim_open(&victim);
  assert_int_equal(pipe2(canary, O_NONBLOCK), 0);
  liar_make(&liar);
  liar.no_lock = true; // the other process has it, but has never said that it is a worker's
  liar.says.bell_fd = canary[1];
  liar.says.bell_inode = inode_of(canary[1]);
  liar_start(&liar);
  struct shm_worker *worker = (struct shm_worker *)victim.worker;
  struct shm_slot *slot = &worker->page->slots[0];
  const uint64_t pids[] = {(uint64_t)liar.pid, (uint64_t)getpid(), 0, UINT32_MAX};
  for (size_t i = 0; i < sizeof pids / sizeof *pids; i++) {
    slot->proof_fd = liar.proof;
    slot->proof_inode = inode_of(liar.proof);
    slot->sender = liar.says.cookie;
    atomic_store(&slot->owner, pids[i] << 32 | 1);
    atomic_store(&slot->state, SHM_SLOT_READY);
    shm_ring_wake_sender(worker, 0);
    char byte;
    assert_int_equal(read(canary[0], &byte, 1), -1);
    assert_int_equal(errno, EAGAIN);
  }
  liar_end(&liar);
  close(canary[0]);
  close(canary[1]);
  end_close(&victim);
}

static void post_message(struct pair *pair, uint64_t count) {
  static const char message[] = "what was said before";
  struct transport_request request;
  request_init(&request, pair->to_b, WEFT_TRANSFER_WRITE, NULL, 0);
  request.message = message;
  request.message_size = sizeof message;
  assert_int_equal(request_run(pair, &request), 0);
  pair_drive(pair);
  assert_int_equal(pair->b->messages, count);
}

// The reader moves the position at which the sender writes: no byte outside of the ring is written.
static void test_positions_that_were_moved(void **state) {
  (void)state;
  struct lies lies;
  lies_open(&lies);
  struct shm_peer *peer = (struct shm_peer *)lies.pair.to_b;
  const uint64_t heads[] = {SHM_RING - 1, SHM_RING - 7, UINT64_MAX, 3};
  uint64_t count = 0;
  post_message(&lies.pair, ++count);
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    atomic_store(&peer->slot->head, heads[i]);
    post_message(&lies.pair, ++count);
    atomic_store(&peer->slot->tail, heads[i]); // the sender moves what only the reader knows
    pair_drive(&lies.pair);
    atomic_store(&peer->slot->tail, atomic_load(&peer->slot->head));
  }
  lies_close(&lies);
}

// A sender that writes nonsense is heard no more, and takes no time from the others.
static void test_nonsense_is_bounded(void **state) {
  (void)state;
  struct lies lies;
  lies_open(&lies);
  struct shm_peer *peer = (struct shm_peer *)lies.pair.to_b;
  const uint64_t heads[] = {UINT64_MAX, 3, SHM_RING + 8, (uint64_t)1 << 40};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    atomic_store(&peer->slot->head, heads[i]);
    shm_ring_notify(peer);
    pair_drive(&lies.pair);
    assert_int_equal(lies.pair.b->messages, 0);
  }
  lies_close(&lies);
}

// A sender that says it is inside of a region for good, as if it were a thread of the owner's: it is waited for as long
// as any process that was stopped, not as long as a thread.
static void test_who_never_leaves_a_gate(void **state) {
  (void)state;
  struct lies lies;
  struct place there;
  lies_open(&lies);
  place_show(&there, lies.pair.b, suite.kind, suite.plain, LIES_BYTES);
  struct shm_worker *worker = (struct shm_worker *)lies.pair.b->worker;
  struct shm_slot *slot = &worker->page->slots[SHM_SLOTS - 1];
  atomic_store(&worker->page->slots_used, UINT32_MAX);
  atomic_store(&slot->owner, (uint64_t)getpid() << 32 | 1);
  atomic_store(&slot->inside[0], ((struct shm_region *)there.region)->gate + 1);
  assert_false(shm_gate_close(worker, ((struct shm_region *)there.region)->gate));
  atomic_store(&slot->inside[0], 0);
  place_close(&there);
  lies_close(&lies);
}

const struct CMUnitTest lies_shm_cases[] = {
    CASE(test_the_truth),
    CASE(test_page_of_another_process),
    CASE(test_page_that_is_not_sealed),
    CASE(test_page_of_another_pid_or_worker),
    CASE(test_page_that_was_handed_to_the_victim),
    CASE(test_descriptors_of_other_kinds),
    CASE(test_the_victims_proof_stays_locked),
    CASE(test_windows_that_are_none),
    CASE(test_memory_of_another_user),
    CASE(test_a_bell_that_is_anothers),
    CASE(test_positions_that_were_moved),
    CASE(test_nonsense_is_bounded),
    CASE(test_who_never_leaves_a_gate),
};
const size_t num_lies_shm_cases = sizeof lies_shm_cases / sizeof *lies_shm_cases;
