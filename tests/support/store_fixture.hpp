#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "outbox/outbox_store.hpp"

namespace sealane::testing {

/// One migrated, empty store of some kind, for the suites that say what every store promises.
class StoreFixture {
 public:
  virtual ~StoreFixture() = default;

  /// Another connection to the same store.
  virtual std::unique_ptr<OutboxStore> Open() = 0;
  /// The same, but one that does not wait when another transaction is in the way.
  virtual std::unique_ptr<OutboxStore> OpenImpatient() { return Open(); }
  /// Makes everything the store remembers that much older.
  virtual void LetTimePass(std::chrono::seconds duration) = 0;

  /// Whether a transaction can go on after a call in it failed.
  virtual bool goes_on_after_errors() const = 0;
  /// Whether a second transaction has to wait for the first to end.
  virtual bool has_one_writer() const = 0;
};

/// `memory`, `sqlite` or `postgres`.
std::unique_ptr<StoreFixture> MakeStoreFixture(const std::string& kind);

/// Runs `work` in a transaction and commits it; again from the start when it collided with another one (kConflict),
/// as every application has to. Other errors fail the test.
void InTransaction(OutboxStore& store, const std::function<Status(Transaction&)>& work);

/// Appends and commits.
std::vector<Appended> AppendAndCommit(OutboxStore& store, const std::vector<NewEntry>& entries);
/// How many events are committed.
std::size_t CountEvents(OutboxStore& store);

}  // namespace sealane::testing
