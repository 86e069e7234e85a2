// A TCP relay that a test puts between a client and a server, to disturb their traffic.
#ifndef SUPPORT_RELAY_H
#define SUPPORT_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct support_relay;

// Listens on a free port of 127.0.0.1 and forwards connections to 127.0.0.1:`target`. NULL: it cannot.
struct support_relay *support_relay_start(uint16_t target);
void support_relay_stop(struct support_relay *relay);

uint16_t support_relay_port(const struct support_relay *relay);

// Resets all connections. Returns how many there were.
size_t support_relay_cut(struct support_relay *relay);

// Resets new connections at once, until called with false.
void support_relay_refuse(struct support_relay *relay, bool refuse);

// Forwards nothing and closes nothing, until called with false, as a network that loses all packets. Data that arrives
// meanwhile is forwarded afterwards.
void support_relay_hold(struct support_relay *relay, bool hold);

// The same for the server's answers only: requests arrive, answers do not.
void support_relay_hold_answers(struct support_relay *relay, bool hold);

// Forwards each piece `delay_ms` after it arrived.
void support_relay_delay(struct support_relay *relay, uint32_t delay_ms);

// Bytes that were sent from the server to clients.
uint64_t support_relay_answered(struct support_relay *relay);

#endif
