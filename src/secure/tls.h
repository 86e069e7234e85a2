// TLS 1.3 (RFC 8446) between two that hold one key and nothing else: with the key as external pre-shared key, and a
// fresh exchange of Diffie and Hellman for each connection. Each side proves the key to the other within the handshake;
// whoever does not have it learns nothing but that it was refused. There are no certificates.
//
// Nothing here waits: the socket is non-blocking, and the caller calls again when it is ready. A connection is used by
// one thread at a time.
#ifndef SECURE_TLS_H
#define SECURE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secure/secret.h"

enum { TLS_BINDING_SIZE = 32 };

// What a call waits for. Positive, so that it is told from a failure.
enum tls_wants { TLS_WANTS_READ = 1, TLS_WANTS_WRITE = 2 };

struct tls;

// A connection over the socket `fd`, which stays the caller's. `calls`: this side connected. `protocol` names what is
// spoken, e.g. "weft meet 2"; both sides have to name the same. The key is not kept once the handshake is over.
// NOMEM. [any]
int tls_open(struct tls **tls, int fd, bool calls, const char *protocol, const uint8_t key[SECRET_KEY_SIZE]);

// Goes on with the handshake. 0: it is over, and the other has the key; enum tls_wants; AUTH: the other does not have
// the key, or speaks something else; PEER_LOST: it hung up. [owner]
int tls_handshake(struct tls *tls);

// Within the handshake of one that was called: whether the first message of the other has proved the key. It may still
// be a copy of somebody else's. [owner]
bool tls_is_proved(const struct tls *tls);

// Takes what has come: 0, `*got` from 1 to `size`; enum tls_wants; PEER_LOST: the connection ended, well or not;
// PROTOCOL: what came is not the other's. After the handshake. [owner]
int tls_read(struct tls *tls, void *bytes, size_t size, size_t *got);

// Sends: 0, `*sent` from 1 to `size`; enum tls_wants: call again with the same bytes, or more behind them; PEER_LOST.
// After the handshake. [owner]
int tls_write(struct tls *tls, const void *bytes, size_t size, size_t *sent);

// What names this connection (tls-exporter, RFC 9266): both sides have the same, and no other connection has it, also
// none that one of the two makes with a third. After the handshake. NOMEM. [owner]
int tls_binding(const struct tls *tls, uint8_t binding[TLS_BINDING_SIZE]);

// Whether tls_read() has bytes that the socket will not announce any more. [owner]
bool tls_has_bytes(const struct tls *tls);

// Says that no more will come, as far as that can be sent at once, and frees it; NULL is legal. [owner]
void tls_close(struct tls *tls);

#endif
