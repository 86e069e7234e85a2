// Makes and reads secrets, and derives keys from them.
#include "secure/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"
#include "secure/hmac.h"

// Parameters of scrypt: 16 MB and some 30 ms for each guess.
enum { SCRYPT_N = 16384, SCRYPT_R = 8, SCRYPT_P = 1, SCRYPT_MEMORY = 64 << 20, MAX_VARIABLE = 64 };

void secret_make(char text[SECRET_DIGITS + 1]) {
  uint8_t bytes[SECRET_DIGITS / 2];
  random_bytes(bytes, sizeof bytes);
  for (size_t i = 0; i < sizeof bytes; i++)
    snprintf(text + 2 * i, 3, "%02x", bytes[i]);
  OPENSSL_cleanse(bytes, sizeof bytes);
}

// --- keys ---

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  char text[SECRET_STRONG];
  uint8_t key[SECRET_KEY_SIZE];
} stretched; // the last secret that was

// A key that takes as long to try as `text` is easy to guess.
static int stretch(const char *text, uint8_t key[SECRET_KEY_SIZE]) {
  static const unsigned char salt[] = "weft secret 1";
  int err = 0;
  pthread_mutex_lock(&lock);
  if (strcmp(stretched.text, text) == 0) {
    memcpy(key, stretched.key, SECRET_KEY_SIZE);
  } else if (EVP_PBE_scrypt(text, strlen(text), salt, sizeof salt - 1, SCRYPT_N, SCRYPT_R, SCRYPT_P, SCRYPT_MEMORY, key,
                            SECRET_KEY_SIZE) == 1) {
    snprintf(stretched.text, sizeof stretched.text, "%s", text);
    memcpy(stretched.key, key, SECRET_KEY_SIZE);
  } else {
    err = fail(WEFT_ERR_SYSTEM, "libcrypto has no scrypt here, or no memory for it: want a secret of %d bytes or more",
               SECRET_STRONG);
  }
  pthread_mutex_unlock(&lock);
  return err;
}

int secret_derive(const char *secret, const char *purpose, uint8_t key[SECRET_KEY_SIZE]) {
  size_t size = secret ? strlen(secret) : 0;
  if (size == 0 || size > SECRET_MAX)
    return fail(WEFT_ERR_INVALID, "a secret must have 1 to %d bytes", SECRET_MAX);
  const struct hmac_part part = {purpose, strlen(purpose)};
  if (size >= SECRET_STRONG)
    return hmac_sha256(secret, size, &part, 1, key);
  uint8_t slow[SECRET_KEY_SIZE];
  int err = stretch(secret, slow);
  if (!err)
    err = hmac_sha256(slow, sizeof slow, &part, 1, key);
  OPENSSL_cleanse(slow, sizeof slow);
  return err;
}

// --- to and from other processes ---

void secret_free(char *text) {
  if (text)
    OPENSSL_cleanse(text, strlen(text));
  free(text);
}

int secret_to_descriptor(const char *text, int *fd) {
  int made = memfd_create("weft-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  size_t size = strlen(text);
  if (made < 0)
    return fail_errno(errno, "no file descriptor to pass a secret");
  if (write(made, text, size) != (ssize_t)size || lseek(made, 0, SEEK_SET) != 0 ||
      fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
    int error = errno;
    close(made);
    return fail_errno(error, "cannot pass a secret");
  }
  *fd = made;
  return 0;
}

int secret_to_file(const char *option, const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST)
    return fail(WEFT_ERR_INVALID, "%s: %s exists already: remove it first", option, path);
  if (fd < 0)
    return fail_errno(errno, "%s: cannot make %s", option, path);
  int err = dprintf(fd, "%s\n", text) < 0 ? fail_errno(errno, "%s: cannot write %s", option, path) : 0;
  if (close(fd) != 0 && !err)
    err = fail_errno(errno, "%s: cannot write %s", option, path);
  if (err)
    unlink(path);
  return err;
}

int secret_check_shown(int fd, const char *name, const char *want) {
  struct stat status;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 077) != 0)
    return fail(WEFT_ERR_INVALID, "%s is a file that other users may read, so the token is not printed there: want %s",
                name, want);
  return 0;
}

// Reads the rest of the descriptor, up to the end of its first line.
static int read_line(int fd, const char *from, char **text) {
  char *line = calloc(1, SECRET_MAX + 2);
  size_t size = 0, first = 0;
  ssize_t got = line ? 1 : 0;
  while (got > 0 && size <= SECRET_MAX) {
    got = read(fd, line + size, SECRET_MAX + 1 - size);
    if (got < 0 && errno == EINTR)
      got = 1;
    else if (got > 0)
      size += (size_t)got;
  }
  int err = 0;
  if (!line)
    err = fail(WEFT_ERR_NOMEM, "no memory for a secret");
  else if (got < 0)
    err = fail_errno(errno, "cannot read the secret of %s", from);
  else if ((first = strcspn(line, "\r\n")) < size && line[first] == '\0')
    err = fail(WEFT_ERR_INVALID, "%s holds no usable secret: byte %zu of its first line is a NUL; want text", from,
               first);
  else if (line[first] = '\0', first > SECRET_MAX || !line[0])
    err = fail(WEFT_ERR_INVALID, "%s holds no usable secret: want 1 to %d bytes in its first line", from, SECRET_MAX);
  if (err)
    secret_free(line);
  else
    *text = line;
  return err;
}

static int from_descriptor(const char *variable, const char *number, char **text) {
  char *end;
  errno = 0;
  long fd = strtol(number, &end, 10);
  if (errno || *end || !*number || fd < 0 || fd > INT32_MAX)
    return fail(WEFT_ERR_INVALID, "%s is \"%s\": want the number of a descriptor", variable, number);
  int err = read_line((int)fd, variable, text);
  close((int)fd);
  return err;
}

int secret_from_file(const char *path, char **text) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0)
    return fail_errno(errno, "cannot open %s", path);
  struct stat status;
  int err = 0;
  if (fstat(fd, &status) != 0)
    err = fail_errno(errno, "cannot stat %s", path);
  else if ((status.st_uid != geteuid() && status.st_uid != 0) || (status.st_mode & 077) != 0)
    err = fail(WEFT_ERR_INVALID,
               "%s holds a secret and others may read it, or it is another user's: chown and chmod 600 it", path);
  if (!err)
    err = read_line(fd, path, text);
  close(fd);
  return err;
}

int secret_from_environment(const char *variable, char **text) {
  char of_fd[MAX_VARIABLE], of_file[MAX_VARIABLE];
  snprintf(of_fd, sizeof of_fd, "%s_FD", variable);
  snprintf(of_file, sizeof of_file, "%s_FILE", variable);
  const char *plain = secure_getenv(variable), *number = secure_getenv(of_fd), *path = secure_getenv(of_file);
  char *found = NULL;
  int err = 0;
  if ((plain && *plain) + (number && *number) + (path && *path) > 1)
    err = fail(WEFT_ERR_INVALID, "more than one of %s, %s and %s is set: want one", variable, of_fd, of_file);
  else if (number && *number)
    err = from_descriptor(of_fd, number, &found);
  else if (path && *path)
    err = (err = secret_from_file(path, &found)) ? fail_context(err, "%s", of_file) : 0;
  else if (plain && *plain && !(found = strdup(plain)))
    err = fail(WEFT_ERR_NOMEM, "no memory for a secret");
  unsetenv(of_fd);
  unsetenv(variable);
  if (!err)
    *text = found;
  return err;
}
