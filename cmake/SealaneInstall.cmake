# What `cmake --install` puts where, and what a package consists of. Everything is relative to the prefix, so that an
# installed tree can be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(SEALANE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/sealane)

# sealane_component(NAME FOLDERS folder... [NEEDS component...] [PACKAGES name...] [PKGCONFIG module...])
#   One thing a user can ask find_package(sealane COMPONENTS ...) or pkg-config for: libraries that come together, the
#   components they need, and what else CMake and pkg-config must find for them.
set(SEALANE_COMPONENTS "")
set(SEALANE_COMPONENT_TABLE "")
function(sealane_component name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;NEEDS;PACKAGES;PKGCONFIG" ${ARGN})
  set(targets ${ARG_FOLDERS})
  list(TRANSFORM targets PREPEND sealane_)
  foreach(folder IN LISTS ARG_FOLDERS)
    set_target_properties(sealane_${folder} PROPERTIES EXPORT_NAME ${folder})
  endforeach()
  install(TARGETS ${targets} EXPORT sealane-${name}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT sealane-${name} NAMESPACE sealane:: DESTINATION ${SEALANE_CMAKE_DIR} COMPONENT development)

  # A static library does not say what it needs, so all of it is said here, dependents first.
  file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" up ${up})
  set(needed ${ARG_NEEDS})
  list(TRANSFORM needed PREPEND sealane-)
  string(JOIN ", " requires ${needed} ${ARG_PKGCONFIG})
  set(libraries ${targets})
  list(TRANSFORM libraries PREPEND -l)
  string(JOIN " " libraries ${libraries})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/component.pc.in ${PROJECT_BINARY_DIR}/install/sealane-${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/install/sealane-${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT development)

  string(APPEND SEALANE_COMPONENT_TABLE
         "set(_sealane_${name}_needs \"${ARG_NEEDS}\")\nset(_sealane_${name}_packages \"${ARG_PACKAGES}\")\n")
  set(SEALANE_COMPONENT_TABLE ${SEALANE_COMPONENT_TABLE} PARENT_SCOPE)
  set(SEALANE_COMPONENTS ${SEALANE_COMPONENTS} ${name} PARENT_SCOPE)
  set_property(GLOBAL APPEND PROPERTY SEALANE_INSTALLED_TARGETS ${targets})
endfunction()

# Needed components stand above those that need them.
sealane_component(core FOLDERS ops tasks inbox relay broker outbox core base
                  PACKAGES Threads fmt OpenSSL PKGCONFIG fmt "libcrypto >= 3")
sealane_component(postgres FOLDERS postgres NEEDS core PACKAGES PostgreSQL PKGCONFIG libpq)
sealane_component(sqlite FOLDERS sqlite journal NEEDS core PACKAGES SQLite3 PKGCONFIG sqlite3)
sealane_component(kafka FOLDERS kafka NEEDS core PACKAGES RdKafka PKGCONFIG "rdkafka >= 2.0.2")
sealane_component(connect FOLDERS connect http stdio NEEDS postgres sqlite kafka core PACKAGES CURL PKGCONFIG libcurl)
sealane_component(jsonschema FOLDERS jsonschema NEEDS core)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sealane DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN *.hpp)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sealaneConfig.cmake.in
  ${PROJECT_BINARY_DIR}/install/sealaneConfig.cmake INSTALL_DESTINATION ${SEALANE_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
# Below 1.0 a new minor version may break.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/install/sealaneConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/install/sealaneConfig.cmake ${PROJECT_BINARY_DIR}/install/sealaneConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindRdKafka.cmake
        DESTINATION ${SEALANE_CMAKE_DIR} COMPONENT development)

# The program and what belongs to it. It writes its own manual pages and completions.
install(TARGETS sealane RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(FILES ${PROJECT_SOURCE_DIR}/deploy/systemd/sealane-relay@.service DESTINATION lib/systemd/system
        COMPONENT runtime)
set(made ${PROJECT_BINARY_DIR}/install)
add_custom_command(
  OUTPUT ${made}/sealane.1 ${made}/sealane.toml.5 ${made}/sealane.bash ${made}/_sealane ${made}/sealane.fish
  COMMAND sealane man > ${made}/sealane.1
  COMMAND sealane man sealane.toml > ${made}/sealane.toml.5
  COMMAND sealane completion bash > ${made}/sealane.bash
  COMMAND sealane completion zsh > ${made}/_sealane
  COMMAND sealane completion fish > ${made}/sealane.fish
  DEPENDS sealane
  COMMENT "Writing manual pages and completions"
  VERBATIM)
add_custom_target(sealane_manual ALL DEPENDS ${made}/sealane.1)
install(FILES ${made}/sealane.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
install(FILES ${made}/sealane.toml.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT runtime)
install(FILES ${made}/sealane.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME sealane
        COMPONENT runtime)
install(FILES ${made}/sealane.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT runtime)
# Debian's zsh looks elsewhere below /usr than below /usr/local.
install(FILES ${made}/_sealane DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT local)
install(FILES ${made}/_sealane DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT debian
        EXCLUDE_FROM_ALL)

# Where the service looks for its configurations; elsewhere that is the administrator's to make.
install(DIRECTORY DESTINATION /etc/sealane COMPONENT debian EXCLUDE_FROM_ALL)

# Everything that an installation or a package takes: `cmake --build DIR --target installable`.
get_property(installed GLOBAL PROPERTY SEALANE_INSTALLED_TARGETS)
add_custom_target(installable DEPENDS ${installed} sealane sealane_manual)

if(PROJECT_IS_TOP_LEVEL)
  include(SealanePackage)
endif()
