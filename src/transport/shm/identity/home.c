// The shared page of a worker, with its slots and rings.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"
#include "transport/shm/identity/identity.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shm_home *homes;

static int map(int fd, size_t size, const struct shm_file *file, struct shm_home **home) {
  struct shm_home *made = calloc(1, sizeof *made);
  if (!made)
    return fail(WEFT_ERR_NOMEM, "no memory for a shared page");
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) {
    free(made);
    return fail_errno(errno, "cannot map a shared page of %zu bytes", size);
  }
  made->page = memory;
  made->size = size;
  made->file = *file;
  made->users = 1;
  made->page_fd = made->proof_fd = -1;
  *home = made;
  return 0;
}

static void add(struct shm_home *home) {
  pthread_mutex_lock(&lock);
  home->next = homes;
  homes = home;
  pthread_mutex_unlock(&lock);
}

static void unmap(struct shm_home *home) {
  munmap(home->page, home->size);
  if (home->proof_fd >= 0)
    close(home->proof_fd);
  free(home);
}

static int look(int fd, struct shm_file *file) {
  struct stat status;
  if (fstat(fd, &status) != 0)
    return fail_errno(errno, "cannot stat a descriptor of shared memory");
  *file = (struct shm_file){status.st_mode & S_IFMT, status.st_dev, status.st_ino};
  return 0;
}

// Draws the secrets of a new worker, and makes the proof that its page is this process's.
static int prove(struct shm_home *home, int page_fd, int bell_fd, const struct shm_file *bell) {
  struct shm_proof proof = {.magic = SHM_PROOF_MAGIC,
                            .version = SHM_VERSION,
                            .pid = (uint32_t)home->pid,
                            .cookie = home->cookie,
                            .page_inode = home->file.inode,
                            .bell_inode = bell->inode,
                            .page_fd = page_fd,
                            .bell_fd = bell_fd};
  random_bytes(home->secret, sizeof home->secret);
  random_bytes(home->own_secret, sizeof home->own_secret);
  memcpy(proof.secret, home->secret, sizeof proof.secret);
  home->page_fd = page_fd;
  home->bell_fd = bell_fd;
  home->bell_inode = bell->inode;
  int rc = shm_proof_create(&proof, &home->proof_fd);
  return rc == 0 ? look(home->proof_fd, &home->proof) : rc;
}

static int create(int fd, uint64_t cookie, int bell_fd, const struct shm_file *bell, struct shm_home **home) {
  struct rlimit files; // RLIMIT_FSIZE holds for memfds too, and going beyond it kills the process
  struct shm_file file;
  struct shm_home *made = NULL;
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < SHM_PAGE_SIZE)
    return fail_errno(EFBIG, "cannot make a shared page of %zu bytes", SHM_PAGE_SIZE);
  if (ftruncate(fd, (off_t)SHM_PAGE_SIZE) != 0)
    return fail_errno(errno, "cannot make a shared page of %zu bytes", SHM_PAGE_SIZE);
  if (fcntl(fd, F_ADD_SEALS, SEALS) != 0)
    return fail_errno(errno, "cannot seal a shared page");
  int rc = look(fd, &file);
  if (rc == 0)
    rc = map(fd, SHM_PAGE_SIZE, &file, &made);
  if (rc != 0)
    return rc;
  made->pid = getpid();
  made->cookie = cookie;
  made->own = true;
  rc = prove(made, fd, bell_fd, bell);
  if (rc != 0) {
    unmap(made);
    return rc;
  }
  made->page->version = SHM_VERSION;
  made->page->pid = (uint32_t)made->pid;
  made->page->cookie = cookie;
  made->page->magic = SHM_MAGIC;
  add(made);
  *home = made;
  return 0;
}

int shm_home_create(uint64_t cookie, int bell_fd, const struct shm_file *bell, int *fd, struct shm_home **home) {
  int made = memfd_create("weft-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0)
    return fail_errno(errno, "cannot create a shared page");
  int rc = create(made, cookie, bell_fd, bell, home);
  if (rc == 0)
    *fd = made;
  else
    close(made);
  return rc;
}

// After fork() the child has the parent's pages in its list too; they are not the child's.
struct shm_home *shm_home_own(uint64_t cookie) {
  pid_t pid = getpid();
  pthread_mutex_lock(&lock);
  struct shm_home *home = homes;
  while (home && !(home->own && home->pid == pid && home->cookie == cookie))
    home = home->next;
  if (home)
    home->users++;
  pthread_mutex_unlock(&lock);
  return home;
}

struct shm_home *shm_home_find(pid_t pid, uint64_t cookie, const struct shm_file *file) {
  pthread_mutex_lock(&lock);
  struct shm_home *home = homes;
  while (home && !(!home->own && home->pid == pid && home->cookie == cookie && home->file.device == file->device &&
                   home->file.inode == file->inode))
    home = home->next;
  if (home)
    home->users++;
  pthread_mutex_unlock(&lock);
  return home;
}

bool shm_home_is_proof(int fd) {
  struct shm_file file;
  if (look(fd, &file) != 0)
    return false;
  pid_t pid = getpid();
  pthread_mutex_lock(&lock);
  const struct shm_home *home = homes;
  while (home &&
         !(home->own && home->pid == pid && home->proof.device == file.device && home->proof.inode == file.inode))
    home = home->next;
  pthread_mutex_unlock(&lock);
  return home != NULL;
}

void shm_home_lock_again(void) {
  pid_t pid = getpid();
  pthread_mutex_lock(&lock);
  for (const struct shm_home *home = homes; home; home = home->next)
    if (home->own && home->pid == pid)
      (void)shm_proof_lock(home->proof_fd);
  pthread_mutex_unlock(&lock);
}

int shm_home_map(int fd, pid_t pid, uint64_t cookie, const struct shm_file *file, struct shm_home **home) {
  struct stat status;
  if (fstat(fd, &status) != 0)
    return fail_errno(errno, "cannot stat a peer's shared page");
  int seals = fcntl(fd, F_GET_SEALS);
  if ((uint64_t)status.st_size != SHM_PAGE_SIZE || seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return fail(WEFT_ERR_PROTOCOL, "a peer's shared page is not of this version");
  struct shm_home *made = NULL;
  int rc = map(fd, SHM_RINGS, file, &made);
  if (rc != 0)
    return rc;
  made->pid = pid;
  made->cookie = cookie;
  const struct shm_page *page = made->page;
  if (page->magic != SHM_MAGIC || page->version != SHM_VERSION || page->cookie != cookie) {
    unmap(made);
    return fail(WEFT_ERR_UNREACHABLE, "the worker of that address is gone");
  }
  add(made);
  *home = made;
  return 0;
}

void shm_home_leave(struct shm_home *home) {
  pthread_mutex_lock(&lock);
  bool last = --home->users == 0;
  for (struct shm_home **link = &homes; last && *link; link = &(*link)->next) {
    if (*link == home) {
      *link = home->next;
      break;
    }
  }
  pthread_mutex_unlock(&lock);
  if (!last)
    return;
  unmap(home);
}
