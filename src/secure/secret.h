// A secret: a text that all parties share that may communicate. Each use derives its own key from the secret and a
// purpose, so that the key of one use reveals nothing about another.
#ifndef SECURE_SECRET_H
#define SECURE_SECRET_H

#include <stddef.h>
#include <stdint.h>

enum {
  SECRET_DIGITS = 32,  // digits of a secret of secret_make(): 128 random bits
  SECRET_STRONG = 32,  // a secret with at least so many bytes is taken as random; shorter ones are stretched
  SECRET_MAX = 4095,   // bytes of a secret
  SECRET_KEY_SIZE = 32 // bytes of a derived key
};

// Makes a new secret, lower-case hexadecimal, with a NUL. [any]
void secret_make(char text[SECRET_DIGITS + 1]);

// Derives the key for `purpose` from the secret: the same on all hosts. A secret of fewer than SECRET_STRONG bytes is
// stretched by scrypt (RFC 7914; 30 ms, 16 MB), since an attacker who sees data made with a derived key can try words.
// The last stretched secret is cached. INVALID: NULL, empty or longer than SECRET_MAX. [any]
int secret_derive(const char *secret, const char *purpose, uint8_t key[SECRET_KEY_SIZE]);

// --- to and from other processes ---

// The secret from the environment: the text of `variable`; or the content of the descriptor whose number is in
// `variable`_FD, which is then closed; or the first line of the file that `variable`_FILE names, which has to belong to
// this user or root and be readable by nobody else. NULL in `*text`: no secret is given. The caller frees it by
// secret_free(). INVALID: two of them are given, or the given one is empty or cannot be read. [any, once: the
// descriptor is closed afterwards, and both variables are removed from the environment so that no child gets them by
// accident]
int secret_from_environment(const char *variable, char **text);

// The first line of a file, which has to belong to this user or root and be readable by nobody else. The caller frees
// it by secret_free(). INVALID: the file is not like that, or empty; SYSTEM: it cannot be read. [any]
int secret_from_file(const char *path, char **text);

// Makes a descriptor (close-on-exec) from which a child reads the secret: sealed memory, at its beginning. [any]
int secret_to_descriptor(const char *text, int *fd);

// Makes a new file that only this user can read, with the secret as its only line. INVALID: the file exists already;
// `option` is named in that text. SYSTEM: it cannot be made. [any]
int secret_to_file(const char *option, const char *path, const char *text);

// Whether a secret that was made here may be written to `fd`. INVALID: `fd` is a file that other users may read. For
// that text, `name` is the name of the secret, and `want` says what to do instead. [any]
int secret_check_shown(int fd, const char *name, const char *want);

// Overwrites and frees a secret; NULL is legal. [any]
void secret_free(char *text);

#endif
