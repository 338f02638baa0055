# Writes a source file that holds every file of web/ as a byte array, with its path, its type and a tag of its content.
set(arrays "")
set(rows "")
set(number 0)
foreach(file IN LISTS FILES)
  file(RELATIVE_PATH path ${ROOT} ${file})
  get_filename_component(ending ${file} LAST_EXT)
  if(ending STREQUAL ".html")
    set(type "text/html; charset=utf-8")
  elseif(ending STREQUAL ".js")
    set(type "text/javascript; charset=utf-8")
  elseif(ending STREQUAL ".css")
    set(type "text/css; charset=utf-8")
  elseif(ending STREQUAL ".svg")
    set(type "image/svg+xml")
  else()
    message(FATAL_ERROR "${file}: the dashboard has html, js, css and svg files")
  endif()
  math(EXPR number "${number} + 1")
  file(READ ${file} hex HEX)
  file(SHA256 ${file} hash)
  string(SUBSTRING ${hash} 0 16 tag)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(REGEX REPLACE "(('[^,]*,){24})" "\\1\n    " bytes "${bytes}")
  string(APPEND arrays "constexpr char kFile${number}[] = {\n    ${bytes}'\\0'};\n")
  string(APPEND rows
         "    WebFile{\"/${path}\", \"${type}\", \"\\\"${tag}\\\"\", std::string_view{kFile${number}, sizeof kFile${number} - 1}},\n")
endforeach()
file(WRITE ${OUTPUT}.new "// Generated from web/; see cmake/EmbedWeb.cmake.
#include \"dashboard/web_files.hpp\"

namespace sealane::cli {
namespace {
${arrays}
constexpr WebFile kFiles[] = {
${rows}};
}  // namespace

std::span<const WebFile> WebFiles() {
  return kFiles;
}
}  // namespace sealane::cli
")
file(RENAME ${OUTPUT}.new ${OUTPUT})
