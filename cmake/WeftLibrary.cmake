# libweft: the objects of its layers as one shared and one static library, and the contents of an installation.

set(WEFT_LIBRARY_LAYERS base secure metrics topology_serve store group device transport agent ep_kernels ep)
set(WEFT_LIBRARY_NEEDS PkgConfig::JANSSON PkgConfig::CURL PkgConfig::OPENSSL ${CMAKE_DL_LIBS})
set(WEFT_LIBRARY_NEEDS_PC ${JANSSON_LDFLAGS} ${CURL_LDFLAGS} ${OPENSSL_LDFLAGS})
foreach(library ${CMAKE_DL_LIBS})
  list(APPEND WEFT_LIBRARY_NEEDS_PC -l${library})
endforeach()
if(MICROHTTPD_FOUND)
  list(APPEND WEFT_LIBRARY_NEEDS PkgConfig::MICROHTTPD)
  list(APPEND WEFT_LIBRARY_NEEDS_PC ${MICROHTTPD_LDFLAGS})
endif()
if(URING_FOUND)
  list(APPEND WEFT_LIBRARY_NEEDS PkgConfig::URING)
  list(APPEND WEFT_LIBRARY_NEEDS_PC ${URING_LDFLAGS})
endif()

set(weft_objects "")
foreach(layer ${WEFT_LIBRARY_LAYERS})
  list(APPEND weft_objects $<TARGET_OBJECTS:weft_${layer}_objects>)
endforeach()

# It exports only the symbols that the version map lists.
set(weft_map ${PROJECT_SOURCE_DIR}/cmake/weft.map)
add_library(weft_shared SHARED ${weft_objects})
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft EXPORT_NAME weft LINKER_LANGUAGE C
  VERSION ${PROJECT_VERSION} SOVERSION 0 LINK_DEPENDS ${weft_map})
target_link_options(weft_shared PRIVATE LINKER:--version-script=${weft_map} LINKER:--as-needed)
if(NOT WEFT_SANITIZE) # the program brings the sanitizers' symbols
  target_link_options(weft_shared PRIVATE LINKER:-z,defs)
endif()
target_link_libraries(weft_shared PRIVATE $<BUILD_INTERFACE:weft_flags> ${WEFT_LIBRARY_NEEDS} Threads::Threads m)

# An archive of many objects would expose their internal names. So they are linked into one object, whose hidden
# symbols become local. Then no internal name can clash with a name of the program.
set(weft_one_object ${PROJECT_BINARY_DIR}/libweft-static.o)
add_custom_command(OUTPUT ${weft_one_object}
  COMMAND ${CMAKE_LINKER} -r -o ${weft_one_object} ${weft_objects}
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${weft_one_object}
  DEPENDS ${weft_objects} COMMAND_EXPAND_LISTS VERBATIM COMMENT "Linking ${weft_one_object}")
add_library(weft_static STATIC ${weft_one_object})
set_source_files_properties(${weft_one_object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
set_target_properties(weft_static PROPERTIES OUTPUT_NAME weft EXPORT_NAME static LINKER_LANGUAGE C)
target_link_libraries(weft_static PUBLIC ${WEFT_LIBRARY_NEEDS} Threads::Threads m)

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
foreach(target weft_shared weft_static)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

# Each file belongs to a component. `cmake --install` installs all; cmake/WeftPackages.cmake makes a package of each.
if(TARGET weft)
  install(TARGETS weft RUNTIME COMPONENT tool)
endif()
install(TARGETS weft_shared EXPORT weft LIBRARY COMPONENT library NAMELINK_COMPONENT dev)
if(TARGET weft_cuda_plugin)
  install(TARGETS weft_cuda_plugin LIBRARY COMPONENT plugin-cuda NAMELINK_SKIP)
endif()
install(TARGETS weft_static EXPORT weft-static ARCHIVE COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weft TYPE INCLUDE COMPONENT dev FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/plans DESTINATION ${CMAKE_INSTALL_DATADIR}/weft COMPONENT tool
  FILES_MATCHING PATTERN "*.json")
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE TYPE DOC COMPONENT tool)

# find_package(weft) gives weft::weft; COMPONENTS static adds weft::static, which also needs the libraries that Weft uses.
set(weft_package ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weft NAMESPACE weft:: FILE weft-targets.cmake DESTINATION ${weft_package} COMPONENT dev)
install(EXPORT weft-static NAMESPACE weft:: FILE weft-static-targets.cmake DESTINATION ${weft_package} COMPONENT dev)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/weft-config.cmake.in ${PROJECT_BINARY_DIR}/weft-config.cmake
  INSTALL_DESTINATION ${weft_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weft-config.cmake ${PROJECT_BINARY_DIR}/weft-config-version.cmake
  DESTINATION ${weft_package} COMPONENT dev)

# The pkg-config file derives its prefix from its own location, so that an installed tree can be moved.
file(RELATIVE_PATH WEFT_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
cmake_path(APPEND WEFT_PC_LIBDIR "\${prefix}" ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND WEFT_PC_INCLUDEDIR "\${prefix}" ${CMAKE_INSTALL_INCLUDEDIR})
list(TRANSFORM CMAKE_C_IMPLICIT_LINK_DIRECTORIES PREPEND -L OUTPUT_VARIABLE weft_known)
list(REMOVE_ITEM WEFT_LIBRARY_NEEDS_PC ${weft_known})
list(JOIN WEFT_LIBRARY_NEEDS_PC " " WEFT_PC_LIBS_PRIVATE)
configure_file(${PROJECT_SOURCE_DIR}/cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
