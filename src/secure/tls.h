// TLS 1.3 (RFC 8446) between two sides that share a key: it is the external pre-shared key, and each connection has a
// fresh Diffie-Hellman exchange. Each side proves to the other within the handshake that it has the key. A side without
// the key learns only that it was refused. There are no certificates.
//
// Nothing here waits: the socket is non-blocking, and the caller calls again when the socket is ready. One thread at a
// time uses a connection.
#ifndef SECURE_TLS_H
#define SECURE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secure/secret.h"

enum { TLS_BINDING_SIZE = 32 };

// The event that a call needs before it can continue. Positive, unlike an error.
enum tls_wants { TLS_WANTS_READ = 1, TLS_WANTS_WRITE = 2 };

struct tls;

// Makes a connection over the socket `fd`, which the caller keeps and closes. `calls`: this side connected. `protocol`
// is the name of the protocol within TLS, e.g. "weft meet 2"; both sides have to pass the same name. The key is not
// kept after the handshake. NOMEM; SYSTEM: this libssl does not speak TLS 1.3 with the cipher that is used. [any]
int tls_open(struct tls **tls, int fd, bool calls, const char *protocol, const uint8_t key[SECRET_KEY_SIZE]);

// Continues the handshake. 0: it is over, and the other side has the key; enum tls_wants; AUTH: the other side does not
// have the key, or uses another protocol; PEER_LOST: it closed the connection. [owner]
int tls_handshake(struct tls *tls);

// For the side that accepted, within the handshake: whether the first message of the other side has proved the key.
// That message may still be a copy of another caller's. [owner]
bool tls_is_proved(const struct tls *tls);

// Reads received bytes: 0, `*got` from 1 to `size`; enum tls_wants; PEER_LOST: the connection ended, orderly or not;
// PROTOCOL: the bytes are not from the other side. Only after the handshake. [owner]
int tls_read(struct tls *tls, void *bytes, size_t size, size_t *got);

// Sends: 0, `*sent` from 1 to `size`; enum tls_wants: call again with the same bytes, which more bytes may follow;
// PEER_LOST. Only after the handshake. [owner]
int tls_write(struct tls *tls, const void *bytes, size_t size, size_t *sent);

// A value that identifies this connection (tls-exporter, RFC 9266): both sides get the same value, and no other
// connection has it, not even one that one of the two sides makes with a third. Only after the handshake. NOMEM.
// [owner]
int tls_binding(const struct tls *tls, uint8_t binding[TLS_BINDING_SIZE]);

// Whether tls_read() has bytes that the socket will not announce any more. [owner]
bool tls_has_bytes(const struct tls *tls);

// Notifies the other side that the connection ends, if that can be sent at once, and frees the connection; NULL is
// legal. [owner]
void tls_close(struct tls *tls);

#endif
