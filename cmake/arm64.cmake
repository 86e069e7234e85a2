# Toolchain: a Debian machine's cross compiler for arm64, with arm64's libraries beside its own (scripts/install-deps.sh
# --arm64 installs both). The tests run if the kernel starts arm64 programs by qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig) # only arm64's
set(WEFT_CUDA OFF CACHE STRING "Build the GPU kernels: they would be linked with another architecture's library")
