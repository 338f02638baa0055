#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sealane/envelope.hpp"

#include "broker/publisher.hpp"
#include "support/child_process.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {

/// An event about version `version` of `key`, with an id of its own.
Envelope ChangeOf(const std::string& key, std::int64_t version);
/// Versions 1 to `versions` of `keys` keys, k0, k1, ..., taking turns.
std::vector<Envelope> ChangesOf(int keys, int versions);

/// Where `sealane consume` is tried: a topic of a broker, and a store with a table that effects are appended to. No
/// constraint of that table keeps an effect from being there twice, and each row says how many effects its key had
/// before it. One place serves many consumers; every row says whose it is.
class ConsumePlace {
 public:
  /// `postgres_kafka` or `sqlite_journal`.
  explicit ConsumePlace(const std::string& kind, int partitions = 2);

  const std::string& topic() const { return topic_; }
  const std::string& folder() const { return file_.folder(); }
  std::string store_url() const;
  std::string broker_url() const;
  bool is_kafka() const { return database_ != nullptr; }

  /// As the relay would; they are there when this returns.
  void Publish(const std::vector<Envelope>& events);
  void PublishBytes(const std::string& key, const std::string& value);

  /// `consume` for this place, with the script that appends effects.
  std::vector<std::string> Arguments(const std::string& consumer, const std::vector<std::string>& more = {}) const;
  /// Until everything is done, with the report as JSON.
  CommandResult CatchUp(const std::string& consumer, const std::vector<std::string>& more = {}) const;
  /// Beside the test, with its log in LogOf(name).
  std::unique_ptr<ChildProcess> Start(const std::string& name, const std::string& consumer,
                                      const std::vector<std::string>& more = {}) const;
  std::string LogOf(const std::string& name) const { return folder() + "/" + name + ".log"; }
  std::string ReadLog(const std::string& name) const;
  /// Another script in place of the usual one, or the usual one with something at its end.
  void WriteScript(const std::string& text) const;
  void AddToScript(const std::string& text) const;

  /// Of the store: the name of one of our tables there, and plain SQL.
  std::string Table(const std::string& name) const;
  void Execute(const std::string& sql) const;
  std::vector<std::vector<std::string>> Query(const std::string& sql) const;
  std::int64_t Number(const std::string& sql) const;
  std::int64_t CountEffects(const std::string& consumer) const;

  /// What was published, what took effect and what the inbox remembers, held against each other: each event of
  /// `events` has one effect, those of a key in the order of its versions, and receipts are for these events. Empty
  /// when all is well. `record`: the consumer keeps receipts.
  std::string Complaint(const std::string& consumer, const std::vector<Envelope>& events, bool record) const;
  /// Whether the group stands in front of everything that has neither taken effect nor been set aside. Only where
  /// nothing was published twice. Empty when all is well.
  std::string AheadComplaint(const std::string& consumer) const;

 private:
  std::map<std::int32_t, std::int64_t> Committed(const std::string& group) const;

  int partitions_;
  std::string topic_;
  std::unique_ptr<ScratchDatabase> database_;
  SqliteFile file_;
  std::unique_ptr<Publisher> publisher_;
};

}  // namespace sealane::testing
