#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "transport/shm/shm.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shm_home *homes;

static int map(int fd, size_t size, uint64_t cookie, struct shm_home **home) {
  struct shm_home *made = calloc(1, sizeof *made);
  if (!made)
    return fail(WEFT_ERR_NOMEM, "no memory for a shared page");
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) {
    free(made);
    return fail_errno(errno, "cannot map a shared page of %zu bytes", size);
  }
  *made = (struct shm_home){.page = memory, .size = size, .cookie = cookie, .users = 1};
  *home = made;
  return 0;
}

static void add(struct shm_home *home) {
  pthread_mutex_lock(&lock);
  home->next = homes;
  homes = home;
  pthread_mutex_unlock(&lock);
}

static int create(int fd, uint64_t cookie, struct shm_home **home) {
  struct rlimit files; // which hold for memfds too, and kill who goes beyond
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < SHM_PAGE_SIZE)
    return fail_errno(EFBIG, "cannot make a shared page of %zu bytes", SHM_PAGE_SIZE);
  if (ftruncate(fd, (off_t)SHM_PAGE_SIZE) != 0)
    return fail_errno(errno, "cannot make a shared page of %zu bytes", SHM_PAGE_SIZE);
  if (fcntl(fd, F_ADD_SEALS, SEALS) != 0)
    return fail_errno(errno, "cannot seal a shared page");
  int rc = map(fd, SHM_PAGE_SIZE, cookie, home);
  if (rc == 0) {
    struct shm_page *page = (*home)->page;
    page->version = SHM_VERSION;
    page->pid = (uint32_t)getpid();
    page->cookie = cookie;
    page->magic = SHM_MAGIC;
    add(*home);
  }
  return rc;
}

int shm_home_create(uint64_t cookie, int *fd, struct shm_home **home) {
  int made = memfd_create("weft-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0)
    return fail_errno(errno, "cannot create a shared page");
  int rc = create(made, cookie, home);
  if (rc == 0)
    *fd = made;
  else
    close(made);
  return rc;
}

struct shm_home *shm_home_find(uint64_t cookie) {
  pthread_mutex_lock(&lock);
  struct shm_home *home = homes;
  while (home && home->cookie != cookie)
    home = home->next;
  if (home)
    home->users++;
  pthread_mutex_unlock(&lock);
  return home;
}

int shm_home_map(int fd, uint64_t cookie, struct shm_home **home) {
  struct stat status;
  if (fstat(fd, &status) != 0)
    return fail_errno(errno, "cannot look at a peer's shared page");
  int seals = fcntl(fd, F_GET_SEALS);
  if ((uint64_t)status.st_size != SHM_PAGE_SIZE || seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return fail(WEFT_ERR_PROTOCOL, "a peer's shared page is not one of this version");
  struct shm_home *made;
  int rc = map(fd, SHM_RINGS, cookie, &made);
  if (rc != 0)
    return rc;
  const struct shm_page *page = made->page;
  if (page->magic != SHM_MAGIC || page->version != SHM_VERSION || page->cookie != cookie) {
    munmap(made->page, made->size);
    free(made);
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
  munmap(home->page, home->size);
  free(home);
}
