#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/random.hpp"
#include "sealane/result.hpp"

#include "config/config.hpp"
#include "demo/database.hpp"
#include "demo/plan.hpp"

namespace sealane::demo {

/// What the command line says about where the demo runs.
struct PlaceOptions {
  std::optional<std::string> store = {};              ///< `postgres://...`; empty: an SQLite file in the folder
  std::optional<std::string> broker = {};             ///< `kafka://...`; empty: a journal in the folder
  std::optional<std::string> folder = {};             ///< empty: a temporary one
  std::string listen = "127.0.0.1:0";                 ///< of the relay's probes and metrics, or `off`
  bool keep = false;                                  ///< with Keep() as soon as there is a verdict
  std::chrono::milliseconds lease{2'000};             ///< of the relay
  std::map<std::string, std::string> variables = {};  ///< the environment
  /// Gets to hear what could not be removed; from the thread that destroys the place.
  std::function<void(std::string)> complain = [](const std::string&) {};
};

/// `SQLite and a journal`, `PostgreSQL and Kafka`, ...
std::string Describe(const PlaceOptions& options);

/// Where a run of the demo lives: a folder of its own with its configuration, a file or a PostgreSQL schema of its
/// own with the tables, and at a Kafka topics of its own. Nothing that was there before is touched.
///
/// Destroying it removes everything again, unless the folder was named or Keep() was called. Belongs to one thread,
/// but for the const methods once it is made.
class Place {
 public:
  /// kMisconfigured for a folder that cannot be made or is not empty, a URL that does not fit, an address that is
  /// taken; kUnavailable when a server is away; kCancelled after a stop. After an error nothing is left.
  static Result<std::unique_ptr<Place>> Make(const PlaceOptions& options, Clock& clock, Random& random,
                                             const std::stop_token& stop);
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  const std::string& folder() const { return folder_; }
  std::string config_file() const { return folder_ + "/sealane.toml"; }
  std::string relay_log() const { return folder_ + "/relay.log"; }
  /// The folder of the journal; empty with a Kafka.
  std::string journal_folder() const { return kafka_ ? "" : folder_ + "/broker"; }
  void Keep() { kept_ = true; }
  /// Shell commands that remove what it made on servers, for when it is kept; empty when that is nothing.
  std::vector<std::string> RemovalCommands() const;
  bool has_kafka() const { return kafka_; }
  /// `http://127.0.0.1:34567`, or empty.
  const std::string& probes_url() const { return probes_url_; }

  const cli::Config& config() const { return config_; }
  const cli::Settings& store() const { return config_.store(); }
  const std::string& broker_url() const { return broker_url_; }
  const Dialect& dialect() const { return dialect_; }
  /// A topic or consumer of this run: at a Kafka with a name that nobody else uses.
  std::string Named(std::string_view name) const { return prefix_ + std::string(name); }
  /// The environment of this run's programs: without settings for other runs of `sealane`.
  const std::map<std::string, std::string>& variables() const { return variables_; }

 private:
  Place() = default;
  Status MakeFolder(const std::optional<std::string>& wanted);
  Status ReserveAddress(const std::string& listen, Clock& clock);
  Status WriteConfig(const PlaceOptions& options, const std::string& run);
  Status MakeTables();
  Status AwaitKafka(Clock& clock, const std::stop_token& stop) const;
  Status MakeTopics();
  void Remove();
  Status DropSchema() const;

  std::string folder_;
  bool made_folder_ = false;    // or else it was there, and empty
  bool filled_folder_ = false;  // what is in it is ours
  bool kept_ = false;
  bool kafka_ = false;
  bool made_schema_ = false;
  bool made_topics_ = false;
  std::function<void(std::string)> complain_;
  std::string prefix_;
  std::string broker_url_;
  std::string listen_;
  std::string probes_url_;
  std::map<std::string, std::string> variables_;
  cli::Config config_;
  Dialect dialect_;
};

/// What whoever asked for a stop gets to hear.
Error Interrupted();

/// What the shop publishes to and who reads it.
inline constexpr std::string_view kOrders = "orders";
inline constexpr std::string_view kPayments = "payments";
inline constexpr std::string_view kApprovals = "approvals";

}  // namespace sealane::demo
