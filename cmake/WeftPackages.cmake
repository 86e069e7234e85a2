# Debian packages, made by `cmake --build build/release --target package`: one for each component of the installation.
# Their dependencies follow from the libraries that their files are linked with (dpkg-shlibdeps).
include(GNUInstallDirs)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VENDOR "The Weft project")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(weft_package_version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Weft maintainers <maintainers@weft.invalid>")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz) # dpkg of Debian 11 cannot read zstd

set(CPACK_COMPONENTS_ALL "")

# weft_package(COMPONENT PACKAGE SECTION summary description)
# Makes this package of the component, with a copyright file. Relations to other packages are set next to the call.
macro(weft_package component package section summary description)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} weft_component)
  set(CPACK_DEBIAN_${weft_component}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${weft_component}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${weft_component}_DESCRIPTION "${summary}\n${description}")
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endmacro()

set(weft_plugins "")
foreach(plugin topology ucx ofi cuda)
  if(TARGET weft_${plugin}_plugin)
    list(APPEND weft_plugins ${plugin})
  endif()
endforeach()
# Hosts without GPUs do not need the plug-in. A plug-in only works with the library and the tool of its own version.
set(weft_recommended ${weft_plugins})
list(REMOVE_ITEM weft_recommended cuda)
list(TRANSFORM weft_recommended REPLACE "(.+)" "libweft0-plugin-\\1 (= ${weft_package_version})")
list(JOIN weft_recommended ", " weft_recommended)

weft_package(library libweft0 libs "elastic expert-parallel communication: the library"
  "Dispatch and combine for experts whose ranks join, leave and die, and one-sided reads and writes of memory.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "${weft_recommended}")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS libweft0-plugin-cuda)

weft_package(dev libweft-dev libdevel "elastic expert-parallel communication: headers and the static library"
  "For building programs with libweft, by pkg-config or by CMake.")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libweft0 (= ${weft_package_version})")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS # for the static library
  "libjansson-dev, libcurl4-openssl-dev, libssl-dev, libmicrohttpd-dev, liburing-dev")

if(TARGET weft)
  weft_package(tool weft utils "elastic expert-parallel communication: the tool"
    "Runs plans of ranks that join, leave and die, measures transfers, and finds what is wrong with a host.")
  set(CPACK_DEBIAN_TOOL_PACKAGE_RECOMMENDS "${weft_recommended}")
  set(CPACK_DEBIAN_TOOL_PACKAGE_SUGGESTS libweft0-plugin-cuda)
endif()

set(weft_topology_gives "which network cards serve which GPU, by hwloc")
set(weft_ucx_gives "transfers by UCX, over RDMA or TCP")
set(weft_ofi_gives "transfers by libfabric, over RDMA, EFA or TCP")
set(weft_cuda_gives "memory and kernels of NVIDIA GPUs")
foreach(plugin ${weft_plugins})
  weft_package(plugin-${plugin} libweft0-plugin-${plugin} libs
    "elastic expert-parallel communication: plug-in ${plugin}"
    "For libweft0 and weft: ${weft_${plugin}_gives}. They load it where it is installed.")
endforeach()

include(CPack)
