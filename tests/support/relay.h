// A TCP relay that a test puts between a client and a server, to disturb their traffic.
#ifndef SUPPORT_RELAY_H
#define SUPPORT_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct support_relay;

// Listens on a free port of 127.0.0.1 and passes connections on to 127.0.0.1:`target`. NULL: it cannot.
struct support_relay *support_relay_start(uint16_t target);
void support_relay_stop(struct support_relay *relay);

uint16_t support_relay_port(const struct support_relay *relay);

// Resets every connection. Returns how many there were.
size_t support_relay_cut(struct support_relay *relay);

// Resets new connections at once, until told otherwise.
void support_relay_refuse(struct support_relay *relay, bool refuse);

// Passes nothing on, and closes nothing, until told otherwise: a network that swallows everything. What came meanwhile
// goes on then.
void support_relay_hold(struct support_relay *relay, bool hold);

// The same for what the server sends: requests arrive, answers do not.
void support_relay_hold_answers(struct support_relay *relay, bool hold);

// Passes each piece on so long after it came.
void support_relay_delay(struct support_relay *relay, uint32_t delay_ms);

// Bytes that went from the server to clients.
uint64_t support_relay_answered(struct support_relay *relay);

#endif
