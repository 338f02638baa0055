#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "dashboard/desks.hpp"
#include "dashboard/overview.hpp"
#include "serve/listen_address.hpp"

namespace sealane::cli {

struct DashboardOptions {
  ListenAddress address = {};
  OverviewFacts facts = {};
  std::chrono::seconds look_every{2};
  std::size_t requests_max = 32;  ///< that wait for the store; one more gets a 503
};

/// The web page that shows how a store's outbox, inboxes and tasks stand, and the documents behind it: on one thread
/// for HTTP and one for the store, until it is destroyed. It only reads.
///
/// Whoever can open a connection can read it, so it listens on this machine alone, and answers only requests that
/// name this machine: a page of somebody else cannot make a browser ask for it under another name.
class Dashboard {
 public:
  /// Does not wait for the store. kMisconfigured (`not_loopback`) for an address that others can reach; kUnavailable
  /// (`address_in_use`) or kMisconfigured (`cannot_listen`) when it cannot be had. The clock must outlive it.
  static Result<std::unique_ptr<Dashboard>> Start(DashboardOptions options, DeskOpeners open, Clock& clock);
  virtual ~Dashboard() = default;

  /// Answers nobody any more, and waits for what is being asked of the store. Destroying it does the same.
  virtual void Stop() = 0;

  /// `http://127.0.0.1:8377`.
  virtual std::string url() const = 0;
  /// One line for people: `12 looks, 40 requests`, and what is in the way.
  virtual std::string Progress() const = 0;
};

/// kMisconfigured (`not_loopback`): see Dashboard.
Status CheckDashboardAddress(const ListenAddress& address);

}  // namespace sealane::cli
