// The tests of the suite of metadata through a store, in the files of its parts.
#ifndef AGENT_EXCHANGE_SUPPORT_STORE_SUITE_H
#define AGENT_EXCHANGE_SUPPORT_STORE_SUITE_H

// store_removal.c
void store_removal_lease_runs_out(void **state);
void store_removal_deletions(void **state);
void store_removal_foreign_values(void **state);
void store_removal_of_own_only(void **state);
void store_removal_foreign_keys(void **state);
// store_replacement.c
void store_replacement_invalidated(void **state);
void store_replacement_invalidated_meanwhile(void **state);
void store_replacement_invalidated_and_fetched(void **state);
void store_replacement_restarted(void **state);
// store_outage.c
void store_outage_late_return(void **state);
void store_outage_empty(void **state);
void store_outage_kept(void **state);
void store_outage_silent(void **state);

#endif
