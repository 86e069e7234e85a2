// The environment variables that Weft knows, as one table.
#include "cli/process/environment.h"

#include <stddef.h>

const struct cli_variable cli_variables[] = {
    {"WEFT_LOG", "warn", "how much is logged on standard error: error, warn, info or debug"},
    {"WEFT_EP_KERNELS", "the best that runs here",
     "variant of the kernels: portable, avx2, avx512, avx512-bf16 or neon"},
    {"WEFT_NICS", "those nearest to each GPU",
     "NICs to choose among: names separated by commas, or ^ and the names to leave out"},
    {"WEFT_CPUS", "near the GPU or NIC",
     "processors for the threads that drive transports: a list like 0-3,8, of those that the process may use, or any"},
    {"WEFT_EP_TRANSPORT", "NVLink, else the first that works",
     "how ranks reach those on other hosts: nvlink, ofi, ucx, or none"},
    {"WEFT_ADDRESS", "all but loopback", "addresses of this host, with commas, at which ranks on other hosts connect"},
    {"WEFT_INTERFACE", "all but loopback", "the same by the names of interfaces"},
    {"WEFT_HOST_ID", "unset", "ranks with different values connect as if they were on different hosts"},
    {"WEFT_CUDA_PLUGIN", "beside the library", "full path of the CUDA plug-in, libweft_cuda"},
    {"WEFT_UCX_PLUGIN", "beside the library", "full path of the plug-in for UCX, libweft_ucx"},
    {"WEFT_OFI_PLUGIN", "beside the library", "full path of the plug-in for libfabric, libweft_ofi"},
    {"WEFT_TOPOLOGY_PLUGIN", "beside the library", "full path of the plug-in that chooses NICs, libweft_topology"},
    {"WEFT_CUFILE", "libcufile.so.0",
     "file of the library cuFile, by which the transport file reaches GPU memory; off: do not use it"},
    {"WEFT_OFI_NICS", "those of the GPU, or near",
     "NICs with commas between them: the transport ofi takes the first that its provider has"},
    {"WEFT_TOKEN_FILE", "unset", "file of this user alone with the token in its first line, instead of WEFT_TOKEN"},
    {"WEFT_TOKEN_FD", "unset", "descriptor that the token is read from, and then closed, instead of WEFT_TOKEN"},
    {"WEFT_PASSWORD_FILE", "unset", "file of this user alone with the password, instead of WEFT_PASSWORD"},
    {"WEFT_PASSWORD_FD", "unset", "descriptor that the password is read from, instead of WEFT_PASSWORD"},
    {"NO_COLOR", "unset", "when not empty, nothing is coloured unless --color=always"},
    {NULL, NULL, NULL},
};
