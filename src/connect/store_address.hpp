#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "sealane/result.hpp"

#include "inbox/inbox_store.hpp"
#include "outbox/outbox_log.hpp"

namespace sealane {

/// A database and how to reach it.
struct StoreAddress {
  std::string url;            ///< as ParseStoreUrl() takes it
  std::string password = {};  ///< PostgreSQL: when not in the URL, the environment or a passfile
  std::string schema = "sealane";
  std::string application_name = "sealane-consume";
  std::chrono::milliseconds connect_timeout{5'000};  ///< SQLite: how long a lock is waited for
  std::chrono::milliseconds statement_timeout{30'000};
};

/// The inbox of a consumer at that address; one connection. kMisconfigured for a URL that is none (`bad_store_url`)
/// and for a store without its tables (`schema_missing`, `database_missing`).
Result<std::unique_ptr<InboxStore>> OpenInboxAt(const StoreAddress& address, const std::string& consumer,
                                                InboxMode mode);

/// The outbox at that address as a relay named `owner` sees it on a route; one connection. Errors are the same.
Result<std::unique_ptr<OutboxLog>> OpenOutboxLogAt(const StoreAddress& address, const std::string& route,
                                                   const std::string& owner);

}  // namespace sealane
