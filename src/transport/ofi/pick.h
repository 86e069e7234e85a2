// Chooses one of libfabric's offers.
#ifndef TRANSPORT_OFI_PICK_H
#define TRANSPORT_OFI_PICK_H

#include <rdma/fabric.h>
#include <stdbool.h>

// The first entry of the list with the best provider; NULL: none is suitable. If several entries are equally good, such
// as the domains of several NICs, it is the entry of the first NIC in `nics` that has one ("rdmap85s0,rdmap87s0", the
// setting nics= or else WEFT_OFI_NICS; NULL: no preference); otherwise the list's order decides, which is the same for
// all ranks of a host. `asked`: providers that are used only on request are allowed, too.
const struct fi_info *ofi_pick(const struct fi_info *list, bool asked, const char *nics);

#endif
