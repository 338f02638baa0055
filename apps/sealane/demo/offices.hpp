#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "sealane/inbox.hpp"
#include "sealane/outbox.hpp"

#include "demo/board.hpp"
#include "demo/place.hpp"
#include "demo/side_writer.hpp"

namespace sealane::demo {

/// The consumers: `payments` takes the money for each order and tells so by an event of its own, in the transaction
/// of its effect; `approvals` decides about each payment. Both through the library's inbox, each in a thread of its
/// own.
class Offices {
 public:
  /// With `side`, payments hands its effects to it instead of writing them in its transaction: the mistake that the
  /// verdict has to find. A run that fails is noted. All must outlive the
  /// offices.
  static Result<std::unique_ptr<Offices>> Open(const Place& place, SideWriter* side, FirstFailure& failure);
  /// Stops and waits.
  ~Offices();
  Offices(const Offices&) = delete;
  Offices& operator=(const Offices&) = delete;

  void Start();
  /// How often a handler failed after it had written its effect.
  std::int64_t failures() const;

 private:
  Offices(const Place& place, SideWriter* side, FirstFailure& failure);
  Status OpenInboxes();
  InboxOptions OptionsOf(std::string_view consumer, std::string_view topic) const;
  Decision TakePayment(const Envelope& event, HandlerTransaction& tx);
  Decision Approve(const Envelope& event, HandlerTransaction& tx) const;
  bool FailsNow(const EventId& id);

  const Place& place_;
  SideWriter* const side_;
  FirstFailure& failure_;
  const Outbox outbox_;
  const std::string insert_payment_;
  const std::string add_paid_;
  const std::string insert_approval_;

  mutable std::mutex mutex_;
  std::set<EventId> failed_;  // guarded by mutex_

  std::vector<Inbox> inboxes_;
  std::vector<std::jthread> threads_;  // last: they use everything above
};

}  // namespace sealane::demo
