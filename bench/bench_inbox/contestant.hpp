#pragma once

#include <cstddef>
#include <string>

#include "common/lap.hpp"

namespace sealane::bench {

/// One way to apply events, run in a process of its own.
struct Contestant {
  /// `record`, `offsets`: our consumer, whose handler posts its upsert. `offsets-awaited`: it waits for each answer,
  /// as one must that wants to know what its statement did. `bare`: a loop of BEGIN, prepared upserts, COMMIT that
  /// remembers nothing. `pipelined`: the same with all upserts of a transaction sent together (PostgreSQL only).
  std::string way;
  std::string store;              ///< `postgres://...` or `sqlite:PATH`
  std::string source = "memory";  ///< or `kafka://HOST:PORT`, or `journal:PATH`
  std::string topic = "orders";   ///< at Kafka
  std::size_t events = 0;
  std::size_t batch = 1;    ///< events per transaction
  std::size_t workers = 1;  ///< connections
};

/// Runs it in a process of its own.
Lap RunAlone(const Contestant& contestant);
/// What such a process is started with: `--alone WAY STORE SOURCE TOPIC EVENTS BATCH WORKERS`. Returns the exit code.
int BeAlone(int argc, char** argv);

/// The effect of an event, the same for all: one upsert with two parameters, the key and the payload.
std::string UpsertSql(bool sqlite);

}  // namespace sealane::bench
