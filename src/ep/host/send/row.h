// What a dispatch writes into a window for each piece.
#ifndef EP_HOST_SEND_ROW_H
#define EP_HOST_SEND_ROW_H

#include "ep/host/host.h"
#include "ep/host/rows/rows.h"

// A token's values in the form in which they travel. If they are cast here, their scales lie behind them.
const uint8_t *ep_send_values(weft_ep_t *ep, struct ep_op *op, uint32_t token);
// Writes a token's row to its place in a window.
void ep_send_row(weft_ep_t *ep, struct ep_op *op, uint32_t token, struct ep_writing *writing, char *to);
// Writes a token's row header for the member of that index: which of the token's selections belong to that member, and
// their weights.
void ep_send_row_head(weft_ep_t *ep, const struct ep_op *op, uint32_t index, uint32_t token, struct ep_row *row);
// Writes the header of a piece for the member's `rows` rows, and raises its flag. The piece is not published yet.
void ep_send_flag(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, uint64_t number, uint32_t rows,
                  enum ep_trait traits);

#endif
