#include "memory/memory_store.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/sha256.hpp"
#include "memory/database.hpp"
#include "memory/memory_transaction.hpp"

namespace sealane::memory {
namespace {

class MemoryOutboxStore final : public OutboxStore {
 public:
  explicit MemoryOutboxStore(std::shared_ptr<Database> database) : database_(std::move(database)) {}

  Result<std::unique_ptr<OwnedTransaction>> Begin() override {
    if (!open_.expired()) {
      return Error(ErrorKind::kMisuse, "transaction_open", "a transaction of this store is open")
          .WithHint("commit or roll back first, or open a second store");
    }
    auto token = std::make_shared<char>();
    open_ = token;
    return std::unique_ptr<OwnedTransaction>(std::make_unique<MemoryTransaction>(database_, std::move(token)));
  }

  Result<std::vector<StoredMessage>> ListMessages(const MessageFilter& filter) override {
    return database_->List(filter);
  }

  Result<std::optional<StoredMessage>> FindMessage(const EventId& id) override {
    auto found = database_->Find(id);
    if (found && Sha256(found->envelope.payload) != found->envelope.payload_hash) {
      return Error(ErrorKind::kCorrupt, "payload_hash_mismatch",
                   fmt::format("the payload of event {} is not the one that was appended", id.ToString()));
    }
    return found;
  }

  Result<SweepReport> ForgetExpired(std::size_t limit) override { return database_->ForgetExpired(limit); }

 private:
  std::shared_ptr<Database> database_;
  std::weak_ptr<void> open_;  // alive while a transaction of this store is
};

}  // namespace

std::shared_ptr<Database> MakeDatabase(Clock& clock, std::chrono::milliseconds lock_wait, std::int32_t lanes) {
  return std::make_shared<Database>(clock, lock_wait, lanes);
}

std::shared_ptr<const Snapshot> TakeSnapshot(const Database& database) {
  return std::make_shared<const Snapshot>(database.TakeSnapshot());
}

void Restore(Database& database, const Snapshot& snapshot) {
  database.Restore(snapshot);
}

Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(std::shared_ptr<Database> database) {
  return std::unique_ptr<OutboxStore>(std::make_unique<MemoryOutboxStore>(std::move(database)));
}

}  // namespace sealane::memory
