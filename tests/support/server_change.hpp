#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/changing_postgres.hpp"
#include "support/child_process.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/running_program.hpp"
#include "support/shop_load.hpp"
#include "support/sqlite_file.hpp"
#include "support/tcp_proxy.hpp"

namespace sealane::testing {

/// The seeds that a scenario plays: two, twenty with SEALANE_TEST_LONG, or the one that SEALANE_TEST_SEED names.
std::vector<std::uint64_t> ServerChangeSeeds();

/// One run of a server-change scenario: a shop that writes to an outbox, relays, a topic, and two consumers with a
/// database of their own, one for each mode. They run all the time, through proxies, while the test replaces a
/// server. What holds is then counted from outside: by SQL in the surviving databases and by reading the topic.
class ServerChangeRun {
 public:
  struct Options {
    bool outbox_changes = false;  ///< the outbox has a server of its own, behind a proxy
    bool inbox_changes = false;   ///< so has the inbox
    bool archive = false;         ///< which keeps an archive
    int partitions = 3;
    std::map<std::string, std::string> variables = {};   ///< for relays and consumers
    std::map<std::string, std::string> properties = {};  ///< of librdkafka, for both
  };

  ServerChangeRun(std::uint64_t seed, const Options& options);
  ~ServerChangeRun();
  ServerChangeRun(const ServerChangeRun&) = delete;
  ServerChangeRun& operator=(const ServerChangeRun&) = delete;

  /// A number below `below` that belongs to the seed.
  int Draw(int below);

  // ---- who runs ------------------------------------------------------------------------------------------------

  /// Relays and consumers, all at work, and a load that is paused.
  void StartAll(int relays);
  void StartRelay();
  void StartConsumer(const std::string& mode);
  ShopLoad& load() { return *load_; }
  const RunningProgram& relay(std::size_t i) const { return *relays_.at(i); }
  const RunningProgram& consumer(const std::string& mode) const { return *consumers_.at(mode); }
  std::string Consumer(const std::string& mode) const { return topic_ + "-" + mode; }
  void SignalRelays(int signal) const;
  void StopRelays();
  /// A consumer that ended by itself is started again.
  void RestartIfEnded(const std::string& mode);
  /// `consume --until caught-up` beside the one that runs.
  CommandResult CatchUp(const std::string& mode, const std::string& timeout) const;
  static constexpr const char* kModes[] = {"record", "offsets"};

  // ---- servers -------------------------------------------------------------------------------------------------

  const std::string& topic() const { return topic_; }
  /// The server that is replaced, that of the outbox or that of the inbox.
  const ChangingPostgres& server() const { return *server_; }
  /// As clients see them; the same before and after.
  std::string OutboxUrl() const;
  std::string InboxUrl() const;
  /// Clients are cut off and meet the other server from now on. The old one is killed and removed.
  void ReplaceServer(ChangingPostgres::Ptr other);
  /// Clients are cut off, and no server answers.
  void TakeAway();
  PgSession& Outbox();
  PgSession& Inbox();

  /// The command, with the store's URL and a clean environment.
  CommandResult Sealane(const std::vector<std::string>& arguments, const std::string& store) const;
  /// Says what it printed when it fails.
  void MustRun(const std::vector<std::string>& arguments, const std::string& store) const;

  // ---- what holds ----------------------------------------------------------------------------------------------

  /// Waits until everything that the surviving outbox has is on the topic, applied by every consumer and shown as
  /// PUBLISHED, while nothing is shown as PUBLISHED that is not on the topic. What keeps it from that, or empty.
  std::string AwaitSettled(std::chrono::seconds limit = std::chrono::seconds{90});
  /// AwaitSettled() and then Complaint().
  std::string Verdict(bool ordered = true);
  /// Events that are shown as PUBLISHED and are not on the topic. Empty when there are none.
  std::string Lie();
  /// Whether every event with status PENDING or PUBLISHING is gone, as the store itself shows it.
  bool AllPublished();
  /// Order of first deliveries, one effect each, order of effects, business rows and events in agreement.
  std::string Complaint(bool ordered = true);
  /// What a settled system must say about itself: `relay --until drained` and `doctor` are content.
  void ExpectCalm();
  /// The status of /readyz and its text.
  static std::pair<int, std::string> Readiness(const RunningProgram& program);
  /// Messages that the group of this consumer has not committed to the broker, by the broker itself.
  std::int64_t Lag(const std::string& mode) const;
  /// The ends of those partitions of the topic that have something in them.
  std::map<std::int32_t, std::int64_t> Ends() const;
  /// The last things that the programs logged at level warning and above, for a failure's message.
  std::string Logs() const;

  /// Events that are gone and that consumers do not get, because the topic they were on is gone.
  void Forget();

 private:
  struct Sold {
    std::string key;
    std::int64_t n = 0;
    std::string id;
    std::string status;
  };
  struct Place {
    std::int32_t partition = 0;
    std::int64_t offset = 0;
  };

  std::vector<Sold> ReadSold();
  std::map<std::string, Place> ReadFirstDeliveries();
  std::map<std::string, int> ReadEffects(const std::string& mode);
  std::string Unfinished(bool* lies);
  std::vector<std::string> ConsumeArguments(const std::string& mode) const;

  std::uint64_t seed_;
  Options options_;
  std::mt19937_64 random_;
  SqliteFile place_;  // for a folder
  std::string topic_;
  std::unique_ptr<ScratchDatabase> outbox_;
  std::unique_ptr<ScratchDatabase> inbox_;
  ChangingPostgres::Ptr server_;
  std::unique_ptr<TcpProxy> proxy_;
  std::unique_ptr<PgSession> outbox_session_;
  std::unique_ptr<PgSession> inbox_session_;
  std::vector<std::unique_ptr<RunningProgram>> relays_;
  std::map<std::string, std::unique_ptr<RunningProgram>> consumers_;
  std::unique_ptr<ShopLoad> load_;
  std::map<std::string, bool> forgotten_;  // ids
  std::size_t records_ = 0;
  std::size_t survivors_ = 0;
};

/// Plays `scenario` with every seed, and says which one failed.
void PlayServerChange(const std::function<void(std::uint64_t seed)>& scenario);

}  // namespace sealane::testing
