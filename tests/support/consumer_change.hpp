#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/changing_postgres.hpp"
#include "support/child_process.hpp"
#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/running_program.hpp"
#include "support/sqlite_file.hpp"
#include "support/tcp_proxy.hpp"
#include "support/topic_load.hpp"

namespace sealane::testing {

/// One run in which the database or the topic of consumers changes: a topic with a load, and a consumer of each mode
/// that appends to a table in which nothing keeps an effect from being there twice. What holds is counted from
/// outside: what the topic has against what the database has.
class ConsumerChangeRun {
 public:
  struct Options {
    bool own_server = false;  ///< behind a proxy, to be replaced; otherwise a database of the tests' server
    bool archive = false;     ///< which keeps an archive
    int partitions = 3;
    std::vector<std::string> modes = {"record", "offsets"};
    std::vector<std::string> arguments = {};  ///< more of them, for every `consume`
  };

  ConsumerChangeRun(std::uint64_t seed, const Options& options);
  ~ConsumerChangeRun();
  ConsumerChangeRun(const ConsumerChangeRun&) = delete;
  ConsumerChangeRun& operator=(const ConsumerChangeRun&) = delete;

  /// A number below `below` that belongs to the seed.
  int Draw(int below);

  // ---- who runs ------------------------------------------------------------------------------------------------

  const std::vector<std::string>& modes() const { return options_.modes; }
  const std::string& topic() const { return topic_; }
  TopicLoad& load() { return *load_; }
  std::string Consumer(const std::string& mode) const { return topic_ + "-" + mode; }
  const RunningProgram& consumer(const std::string& mode) const { return *consumers_.at(mode); }
  void StartConsumers();
  /// As a service manager does, and expects a clean end.
  void StopConsumers();
  /// Sends a signal to all of them.
  void SignalConsumers(int signal) const;
  /// `consume --until caught-up`.
  CommandResult CatchUp(const std::string& mode, const std::string& timeout = "60s") const;
  /// The same beside the test.
  std::unique_ptr<RunningProgram> StartCatchUp(const std::string& mode) const;

  // ---- the store -----------------------------------------------------------------------------------------------

  std::string Url() const;
  PgSession& Store();
  /// With own_server.
  const ChangingPostgres& server() const { return *server_; }
  void TakeAway();
  void ReplaceServer(ChangingPostgres::Ptr other);
  /// Without own_server: the database is dropped under its users and made again, with empty tables.
  void MakeStoreAnew();
  /// Deletes the topic and makes it again; the load must not depend on it meanwhile.
  void MakeTopicAnew(int partitions = 3);

  CommandResult Sealane(std::vector<std::string> arguments) const;
  /// `sealane inbox resume` of all partitions, or of one.
  void Resume(const std::string& mode, const std::string& from, int partition = -1);
  /// The positions that `sealane inbox position -o json` shows.
  nlohmann::json Positions(const std::string& mode) const;
  /// The stop codes of partitions of this consumer.
  std::set<std::string> Stops(const std::string& mode) const;

  // ---- what holds ----------------------------------------------------------------------------------------------

  /// How many events have an effect.
  int Applied(const std::string& mode);
  /// With a paused load: waits until every event that the topic has now is applied; then no event was applied twice
  /// and those of a key in their order. What is wrong, or empty.
  std::string Verdict(std::chrono::seconds limit = std::chrono::seconds{60});
  /// From now on only that, and not the order: where events were read before an operator went back to the beginning.
  /// The same at once, for one consumer.
  std::string Complaint(const std::string& mode);
  /// Running consumers become ready, `inbox position` has nothing stopped, and when they are ended `consume --until
  /// caught-up` has nothing more to do.
  void ExpectCalm();
  /// The last things that the consumers logged at level warning and above, for a failure's message.
  std::string Logs() const;

 private:
  std::vector<std::string> ConsumeArguments(const std::string& mode) const;
  void Prepare();
  std::string Missing(const std::string& mode, const std::map<std::string, KafkaRecord>& events);
  std::map<std::string, KafkaRecord> ReadEvents() const;
  std::string Complaint(const std::string& mode, const std::map<std::string, KafkaRecord>& events);

  Options options_;
  std::mt19937_64 random_;
  SqliteFile place_;  // for a folder
  std::string topic_;
  std::unique_ptr<ScratchDatabase> database_;
  ChangingPostgres::Ptr server_;
  std::unique_ptr<TcpProxy> proxy_;
  std::unique_ptr<PgSession> session_;
  std::map<std::string, std::unique_ptr<RunningProgram>> consumers_;
  std::unique_ptr<TopicLoad> load_;
};

}  // namespace sealane::testing
