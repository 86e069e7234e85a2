# Writes the assets of pages as C: cmake -D OUT=file -D ASSETS=folder -D SCRIPTS=a;b -D LIBRARY=file -P WeftEmbed.cmake
# An empty LIBRARY makes an empty asset.

set(text "// Made by cmake/WeftEmbed.cmake from src/page/assets.\n#include \"page/assemble.h\"\n")

# Writes the bytes of one or several files, one after the other, as the asset page_NAME.
function(embed name)
  set(hex "")
  foreach(file ${ARGN})
    file(READ "${file}" content)
    if(NOT name STREQUAL skeleton AND content MATCHES "</script|</style|<!--")
      message(FATAL_ERROR "${file} has \"${CMAKE_MATCH_0}\", which would end its element in a page")
    endif()
    file(READ "${file}" part HEX)
    string(APPEND hex "${part}")
  endforeach()
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(................................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  set(text "${text}static const char ${name}[] = {${hex}0};
const struct page_asset page_${name} = {${name}, ${size}};\n" PARENT_SCOPE)
endfunction()

embed(skeleton ${ASSETS}/page.html)
embed(style ${ASSETS}/page.css)
embed(script ${SCRIPTS})
embed(library ${LIBRARY})
embed(licence ${ASSETS}/chart-licence.txt)
file(WRITE ${OUT} "${text}")
