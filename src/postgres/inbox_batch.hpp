#pragma once

#include <memory>

#include "postgres/inbox_session.hpp"

namespace sealane::postgres {

/// Opens a transaction, files the arrivals and looks up what is known of them, in one round trip.
Result<std::unique_ptr<InboxBatch>> OpenInboxBatch(const InboxSession& session, const BatchRequest& request);

}  // namespace sealane::postgres
