# The dependencies of the build. If a required one is missing, the configuration stops and names its package. If an
# optional one is missing, only the parts that need it are left out.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET libssl>=3 libcrypto>=3)
pkg_check_modules(MICROHTTPD IMPORTED_TARGET libmicrohttpd) # without: no embedded server
pkg_check_modules(HWLOC IMPORTED_TARGET hwloc)              # without: no topology
pkg_check_modules(YAML IMPORTED_TARGET yaml-0.1)             # without: no lists of traffic patterns
pkg_check_modules(URING IMPORTED_TARGET liburing>=2.3)      # without: files by pread() and pwrite()
# Without tomlplusplus, or a compiler of C++ for it: `weft bench` reads no config_file.
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h)
if(TOMLPLUSPLUS_INCLUDE_DIR)
  include(CheckLanguage)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    set(CMAKE_CXX_STANDARD 17)
    set(CMAKE_CXX_VISIBILITY_PRESET hidden)
    set(TOMLPLUSPLUS_FOUND ON)
  endif()
endif()
if(WEFT_TESTS)
  pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)          # without: no tests
  if(NOT CMOCKA_FOUND)
    message(STATUS "cmocka not found: the tests are left out (scripts/install-deps.sh --test installs it)")
    set(WEFT_TESTS OFF) # a normal variable: the cached option stays on
  endif()
endif()
