# Compiler options, and the functions with which each folder declares its targets.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE
  -Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  -Wpointer-arith -Wvla -Wundef -Wwrite-strings
  -ffp-contract=off # every variant of a kernel computes the same bits
  $<$<BOOL:${WEFT_WERROR}>:-Werror>)
target_compile_definitions(weft_flags INTERFACE _GNU_SOURCE)
target_include_directories(weft_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
if(WEFT_SANITIZE)
  target_compile_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()

# weft_layer(NAME SOURCES file... [DEPS layer...] [LIBS target...])
# One folder of src/: the objects weft_NAME_objects, for libweft, and the archive weft_NAME, for the tool and the tests.
# DEPS are the lower layers that it may include; LIBS are external libraries.
function(weft_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_library(weft_${name}_objects OBJECT ${ARG_SOURCES})
  target_link_libraries(weft_${name}_objects PRIVATE weft_flags Threads::Threads ${ARG_LIBS})
  add_library(weft_${name} STATIC $<TARGET_OBJECTS:weft_${name}_objects>)
  list(TRANSFORM ARG_DEPS PREPEND weft_)
  target_link_libraries(weft_${name} PUBLIC ${ARG_DEPS} ${ARG_LIBS} Threads::Threads m)
endfunction()

# The options of the functions for tests.
set(test_flags SERIAL VALGRIND)
set(test_values TIMEOUT COST PROVES)
set(test_lists SOURCES LAYERS LIBS COMMAND LABELS ENVIRONMENT)

# weft_test(NAME PROVES sentence SOURCES file... LAYERS layer... [LIBS target...] [TIMEOUT seconds] [LABELS label...]
#           [COST number] [SERIAL] [VALGRIND] [ENVIRONMENT VAR=value...])
# One cmocka program, run by ctest as NAME. Exit status 77 means skipped. PROVES is one sentence that says what the test
# proves; test.sh prints it. VALGRIND: short enough to run under memcheck too, by `ctest -C valgrind`. Tests of a higher
# COST begin earlier; the default of COST is the TIMEOUT.
function(weft_test name)
  cmake_parse_arguments(ARG "${test_flags}" "${test_values}" "${test_lists}" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE weft_flags PkgConfig::CMOCKA ${ARG_LIBS})
  foreach(layer ${ARG_LAYERS})
    target_link_libraries(test_${name} PRIVATE weft_${layer})
  endforeach()
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  add_test(NAME ${name} COMMAND test_${name})
  weft_test_properties(${name} ${ARGN})
  if(ARG_VALGRIND)
    weft_valgrind_test(${name} ${ARGN})
  endif()
endfunction()

# weft_test_objects(VARIABLE file...)
# Compiles files once that several tests share. Tests add the value of VARIABLE to their SOURCES.
function(weft_test_objects variable)
  file(RELATIVE_PATH target ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${variable})
  string(REPLACE "/" "_" target ${target})
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${ARGN})
  target_link_libraries(${target} PRIVATE weft_flags PkgConfig::CMOCKA)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  set(${variable} $<TARGET_OBJECTS:${target}> PARENT_SCOPE)
endfunction()

# weft_script_test(NAME PROVES sentence COMMAND command... [the same options])
# One script; exit status 0 means passed, 77 skipped. It finds the tool in $WEFT and the source tree in $WEFT_SOURCE.
function(weft_script_test name)
  cmake_parse_arguments(ARG "${test_flags}" "${test_values}" "${test_lists}" ${ARGN})
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  weft_test_properties(${name} ${ARGN})
endfunction()

# The tests that ./test.sh without options leaves out, one name a line.
file(STRINGS ${PROJECT_SOURCE_DIR}/tests/long.txt weft_long_tests REGEX "^[a-z]")
file(STRINGS ${PROJECT_SOURCE_DIR}/tests/no-tsan.txt weft_no_tsan_tests REGEX "^[a-z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/long.txt
  ${PROJECT_SOURCE_DIR}/tests/no-tsan.txt)

# Sets `result` to the given labels, plus "long" if tests/long.txt names the test, "no_tsan" if tests/no-tsan.txt does.
function(weft_test_labels result name)
  set(labels ${ARGN})
  if(name IN_LIST weft_long_tests)
    list(APPEND labels long)
  endif()
  if(name IN_LIST weft_no_tsan_tests)
    list(APPEND labels no_tsan)
  endif()
  set(${result} "${labels}" PARENT_SCOPE)
endfunction()

# For another run of a program, which has its own add_test(): weft_test_properties(NAME PROVES sentence [options])
function(weft_test_properties name)
  cmake_parse_arguments(ARG "${test_flags}" "${test_values}" "${test_lists}" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS) # a semicolon in a sentence causes this
    message(FATAL_ERROR "the test ${name} does not understand \"${ARG_UNPARSED_ARGUMENTS}\"")
  endif()
  if(NOT ARG_TIMEOUT) # far more than any test takes, also on a busy machine: it ends tests that hang
    set(ARG_TIMEOUT 300)
  endif()
  if(CMAKE_CROSSCOMPILING) # tests run in an emulator, which is about ten times slower
    math(EXPR ARG_TIMEOUT "3 * ${ARG_TIMEOUT}")
  endif()
  if(NOT ARG_COST)
    set(ARG_COST ${ARG_TIMEOUT})
  endif()
  set(sanitizer_environment "")
  if(WEFT_SANITIZE) # UCX patches madvise() and others when it is loaded, which disturbs sanitizers
    set(sanitizer_environment "UCX_MEM_EVENTS=n;WEFT_TEST_SLOWED=1")
  endif()
  # Long tests begin early, so that none of them runs alone at the end.
  weft_test_labels(labels ${name} ${ARG_LABELS})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} SKIP_RETURN_CODE 77
    LABELS "${labels}"
    ENVIRONMENT
    "WEFT=${PROJECT_BINARY_DIR}/weft;WEFT_SOURCE=${PROJECT_SOURCE_DIR};${sanitizer_environment};${ARG_ENVIRONMENT}")
  if(ARG_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  weft_test_proves(${name} "${ARG_PROVES}")
endfunction()

# weft_test_again(NAME TEST PROVES sentence [options])
# Runs the program of that test once more, in another environment.
function(weft_test_again name test)
  add_test(NAME ${name} COMMAND test_${test})
  weft_test_properties(${name} ${ARGN})
endfunction()

# Writes a line for scripts/sum-tests.py: the test's name, its folder and what it proves.
function(weft_test_proves name sentence)
  set(ledger ${PROJECT_BINARY_DIR}/tests.tsv)
  get_property(begun GLOBAL PROPERTY WEFT_LEDGER_BEGUN)
  if(NOT begun)
    file(WRITE ${ledger} "")
    set_property(GLOBAL PROPERTY WEFT_LEDGER_BEGUN ON)
  endif()
  if(NOT sentence)
    message(FATAL_ERROR "the test ${name} does not say what it PROVES")
  endif()
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  file(APPEND ${ledger} "${name}\t${folder}\t${sentence}\n")
endfunction()

# Runs the program of a test once more under memcheck: an invalid access, an uninitialised value or a leak fails it.
# Valgrind cannot run programs with sanitizers.
find_program(VALGRIND valgrind)
function(weft_valgrind_test name)
  if(NOT VALGRIND OR WEFT_SANITIZE)
    return()
  endif()
  add_test(NAME valgrind_${name} CONFIGURATIONS valgrind COMMAND ${VALGRIND} --quiet --vgdb=no --num-callers=30
    --trace-children=no --leak-check=full --show-leak-kinds=definite,indirect,possible
    --errors-for-leak-kinds=definite,indirect,possible --error-exitcode=99
    --suppressions=${PROJECT_SOURCE_DIR}/tests/valgrind.supp $<TARGET_FILE:test_${name}>)
  weft_test_properties(valgrind_${name} ${ARGN})
  weft_test_labels(labels valgrind_${name} valgrind)
  set_tests_properties(valgrind_${name} PROPERTIES LABELS "${labels}" TIMEOUT 900)
  set_property(TEST valgrind_${name} APPEND PROPERTY ENVIRONMENT WEFT_TEST_SLOWED=1)
endfunction()
