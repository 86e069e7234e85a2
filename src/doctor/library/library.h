// The libraries that Weft loads: which of them this host has, their versions, and what they support.
#ifndef DOCTOR_LIBRARY_LIBRARY_H
#define DOCTOR_LIBRARY_LIBRARY_H

#include "doctor/report/check.h"

// These three load the library in a child process (library/ask.h). The caller has zeroed the facts.
void doctor_gather_ucx(struct doctor_library_facts *facts, uint32_t timeout_ms);
void doctor_gather_ofi(struct doctor_library_facts *facts, uint32_t timeout_ms);
void doctor_gather_cufile(struct doctor_library_facts *facts);

// Loads each of the other libraries into this process, and gets its version.
void doctor_gather_libraries(struct doctor_loaded libraries[DOCTOR_LIBRARIES]);

doctor_judge_fn doctor_judge_libraries, doctor_judge_ucx, doctor_judge_ofi, doctor_judge_cufile;

#endif
