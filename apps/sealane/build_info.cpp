#include "build_info.hpp"

#include "kafka/kafka_probe.hpp"
#include "postgres/postgres_store.hpp"
#include "sqlite/sqlite_store.hpp"

namespace sealane::cli {

std::map<std::string, std::string> LibraryVersions() {
  return {{"version", SEALANE_VERSION},
          {"libpq", postgres::ClientVersion()},
          {"sqlite", sqlite::LibraryVersion()},
          {"librdkafka", KafkaLibraryVersion()}};
}

}  // namespace sealane::cli
