# One target per folder, linked exactly as the folders may include each other.

add_library(sealane_options INTERFACE)
target_compile_options(sealane_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Werror
  -fstack-protector-strong)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees an overlapping copy in every `"literal" + std::string` once it optimises (GCC bug 105651).
  target_compile_options(sealane_options INTERFACE -Wno-restrict)
endif()
# Errors and broken invariants name their source file: as `src/...`, wherever it was built.
target_compile_options(sealane_options INTERFACE -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_compile_definitions(sealane_options INTERFACE _GLIBCXX_ASSERTIONS)
target_link_options(sealane_options INTERFACE -Wl,-z,relro,-z,now)
if(NOT SEALANE_SANITIZER)
  # Needs optimisation, and the sanitizers have their own interceptors for the same calls.
  target_compile_options(sealane_options INTERFACE $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>)
else()
  target_compile_options(sealane_options INTERFACE -fsanitize=${SEALANE_SANITIZER} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(sealane_options INTERFACE -fsanitize=${SEALANE_SANITIZER})
  # The instrumented code hides from GCC that an optional was filled; the sanitizers look for the real thing.
  target_compile_options(sealane_options INTERFACE -Wno-maybe-uninitialized)
endif()

# A third to a half of compiling a source is reading headers, mostly the standard library's. With SEALANE_UNITY the
# sources of a folder are compiled eight at a time, which makes a build from nothing quicker and a change of one source
# slower. Sources whose names of their own clash with a neighbour's are compiled apart.
option(SEALANE_UNITY "Compile several sources of a folder as one" OFF)
function(sealane_unity target)
  if(SEALANE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    # A class of one source may have members of types that only this source knows.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# sealane_module(NAME [DEPS folder...] [LINKS library...] [HEADERS library...] [APART source...])
#   Makes sealane_NAME from every .cpp of the current folder. DEPS are other folders of src/ whose headers this
#   one may include; LINKS are the third-party libraries that stay inside it. HEADERS are those that consist of headers
#   only: who links the installed library does not need them. APART are sources for sealane_unity.
function(sealane_module name)
  cmake_parse_arguments(ARG "" "" "DEPS;LINKS;HEADERS;APART" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(sealane_${name} STATIC ${sources})
  add_library(sealane::${name} ALIAS sealane_${name})
  sealane_unity(sealane_${name} ${ARG_APART})
  target_include_directories(sealane_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(sealane_${name} PUBLIC sealane_${dep})
  endforeach()
  target_link_libraries(sealane_${name} PRIVATE ${ARG_LINKS})
  foreach(library IN ITEMS ${ARG_HEADERS} sealane_options)
    target_link_libraries(sealane_${name} PRIVATE $<BUILD_INTERFACE:${library}>)
  endforeach()
endfunction()

# sealane_embed_sql(TARGET FOLDER)
#   Compiles sql/FOLDER/NNNN_*.sql into TARGET as sealane::FOLDER::EmbeddedMigrations().
function(sealane_embed_sql target folder)
  file(GLOB scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/sql/${folder}/*.sql)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/embedded_migrations.cpp)
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${generated} -DNAMESPACE=${folder} "-DSCRIPTS=${scripts}"
            -P ${PROJECT_SOURCE_DIR}/cmake/EmbedSql.cmake
    DEPENDS ${scripts} ${PROJECT_SOURCE_DIR}/cmake/EmbedSql.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${generated})
endfunction()
