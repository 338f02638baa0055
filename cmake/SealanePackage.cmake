# Debian packages, by `cpack -G DEB` in the build directory (deploy/make_deb does all steps): `sealane` is the program,
# `libsealane-dev` what programs are built with.
set(SEALANE_PACKAGE_MAINTAINER "The Sealane project <packages@sealane.invalid>" CACHE STRING
    "Who answers for a Debian package: Name <address>")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sealane)
set(CPACK_PACKAGE_VENDOR Sealane)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "transactional outbox and inbox")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_CONTACT ${SEALANE_PACKAGE_MAINTAINER})
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL runtime debian development)
set(CPACK_COMPONENT_RUNTIME_GROUP program)
set(CPACK_COMPONENT_DEBIAN_GROUP program)
set(CPACK_COMPONENT_DEVELOPMENT_GROUP libraries)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME sealane)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION database)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION 
"The program: relay, consumer and tools. Events that a service commits together
with its data are delivered to Kafka and other receivers in order, and applied
once in the database of a consumer.")
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_NAME libsealane-dev)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SECTION libdevel)
# The static libraries of a component need these only when that component is used.
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_DEPENDS "libfmt-dev, libssl-dev")
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_RECOMMENDS "libpq-dev, libsqlite3-dev, librdkafka-dev, libcurl4-openssl-dev")
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SUGGESTS "sealane")
set(CPACK_COMPONENT_LIBRARIES_DESCRIPTION 
"Headers and static libraries for C++ programs that append events in their own
transaction or apply events once, with PostgreSQL, SQLite and Kafka.")
include(CPack)
