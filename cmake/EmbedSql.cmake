# Writes a source file that holds each numbered SQL script as a byte array (string literals have a length limit).
set(arrays "")
set(rows "")
foreach(script IN LISTS SCRIPTS)
  get_filename_component(stem ${script} NAME_WE)
  string(REGEX MATCH "^([0-9]+)_(.+)$" matched ${stem})
  if(NOT matched)
    message(FATAL_ERROR "${script}: a migration is named NNNN_what_it_does.sql")
  endif()
  math(EXPR number "${CMAKE_MATCH_1}" OUTPUT_FORMAT DECIMAL)
  set(name ${CMAKE_MATCH_2})
  file(READ ${script} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(REGEX REPLACE "(('[^,]*,){24})" "\\1\n    " bytes "${bytes}")
  string(APPEND arrays "constexpr char kScript${number}[] = {\n    ${bytes}'\\0'};\n")
  string(APPEND rows
         "    Migration{${number}, \"${name}\", std::string_view{kScript${number}, sizeof kScript${number} - 1}},\n")
endforeach()
file(WRITE ${OUTPUT}.new "// Generated from sql/${NAMESPACE}; see cmake/EmbedSql.cmake.
#include \"outbox/migration.hpp\"

namespace sealane::${NAMESPACE} {
namespace {
${arrays}}  // namespace

std::vector<Migration> EmbeddedMigrations() {
  return {
${rows}  };
}
}  // namespace sealane::${NAMESPACE}
")
file(RENAME ${OUTPUT}.new ${OUTPUT})
