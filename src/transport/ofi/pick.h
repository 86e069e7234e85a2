// Which of what libfabric offers is used.
#ifndef TRANSPORT_OFI_PICK_H
#define TRANSPORT_OFI_PICK_H

#include <rdma/fabric.h>
#include <stdbool.h>

// The first of the list with the best provider; NULL when none will do. Among as good ones, as the domains of several
// NICs are, that of the first NIC in `nics` that has one ("rdmap85s0,rdmap87s0", the setting nics= or else
// WEFT_OFI_NICS; NULL: no wish) goes before the list's order, which is the same for all ranks of a host. `asked`: what
// is used only when it is asked for is wanted too.
const struct fi_info *ofi_pick(const struct fi_info *list, bool asked, const char *nics);

#endif
