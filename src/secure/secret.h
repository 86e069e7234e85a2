// A secret: text that those share who may talk to each other. What each use of it needs is derived from it, with a
// purpose, so that no use tells anything of another.
#ifndef SECURE_SECRET_H
#define SECURE_SECRET_H

#include <stddef.h>
#include <stdint.h>

enum {
  SECRET_DIGITS = 32,  // of a secret that secret_make() makes: 128 random bits
  SECRET_STRONG = 32,  // bytes from which on a secret is taken for random; shorter ones are stretched
  SECRET_MAX = 4095,   // bytes of a secret
  SECRET_KEY_SIZE = 32 // bytes of a derived key
};

// A new one, lower-case hexadecimal, with a NUL. [any]
void secret_make(char text[SECRET_DIGITS + 1]);

// The key that `purpose` takes from the secret: the same on all hosts. A secret of fewer than SECRET_STRONG bytes is
// stretched by scrypt (RFC 7914; 30 ms, 16 MB), since whoever sees what was made with a derived key may try words; the
// last one is remembered. INVALID: NULL, empty or longer than SECRET_MAX. [any]
int secret_derive(const char *secret, const char *purpose, uint8_t key[SECRET_KEY_SIZE]);

// --- to and from other processes ---

// The secret that the environment gives: the text of `variable`; or what the descriptor of the number in
// `variable`_FD holds, which is closed; or the first line of the file that `variable`_FILE names, which has to belong
// to this user or root and be readable by nobody else. NULL in `*text`: none is given. The caller frees it by
// secret_free(). INVALID: two are given, or what is given is empty or cannot be read. [any, once: the descriptor is
// gone afterwards, and both variables are taken out of the environment so that no child gets them by accident]
int secret_from_environment(const char *variable, char **text);

// The first line of a file, which has to belong to this user or root and be readable by nobody else. The caller frees
// it by secret_free(). INVALID: it is not such a file, or empty; SYSTEM: it cannot be read. [any]
int secret_from_file(const char *path, char **text);

// A descriptor (close-on-exec) from which a child reads the secret: memory, sealed, read from its beginning. [any]
int secret_to_descriptor(const char *text, int *fd);

// Makes a new file that only this user can read, with the secret as its line. INVALID: it is there already; `option` is
// for that sentence. SYSTEM: it cannot be made. [any]
int secret_to_file(const char *option, const char *path, const char *text);

// Whether a secret that was made here may be shown there: INVALID where `fd` is a file that other users may read;
// `name` is what it is called, and `want` what to do instead. [any]
int secret_check_shown(int fd, const char *name, const char *want);

// Overwrites it and frees it; NULL is legal. [any]
void secret_free(char *text);

#endif
