# The target `docs`: the reference of the public headers as HTML, in docs/html of the build directory.
find_package(Doxygen QUIET)
if(DOXYGEN_FOUND)
  set(WEFT_DOCS_SOURCE ${PROJECT_SOURCE_DIR})
  set(WEFT_DOCS_OUTPUT ${PROJECT_BINARY_DIR}/docs)
  file(MAKE_DIRECTORY ${WEFT_DOCS_OUTPUT})
  configure_file(${PROJECT_SOURCE_DIR}/docs/Doxyfile.in ${WEFT_DOCS_OUTPUT}/Doxyfile @ONLY)
  add_custom_target(docs COMMAND ${DOXYGEN_EXECUTABLE} ${WEFT_DOCS_OUTPUT}/Doxyfile VERBATIM
    COMMENT "Writing ${WEFT_DOCS_OUTPUT}/html/index.html")
else()
  add_custom_target(docs VERBATIM
    COMMAND ${CMAKE_COMMAND} -E echo "docs: Doxygen is missing: install the package doxygen, and configure again"
    COMMAND ${CMAKE_COMMAND} -E false)
endif()

# The target `docs-python`: the reference of the Python package, in docs/python of the build directory, by pdoc, which
# is installed from PyPI with its dependencies.
add_custom_target(docs-python VERBATIM
  COMMAND ${CMAKE_COMMAND} -E env WEFT_SOURCE=${PROJECT_SOURCE_DIR}
    python3 ${PROJECT_SOURCE_DIR}/tests/python/package.py ${PROJECT_BINARY_DIR} --docs
  COMMENT "Writing ${PROJECT_BINARY_DIR}/docs/python/index.html")
if(TARGET weft)
  add_dependencies(docs-python weft weft_shared)
endif()
