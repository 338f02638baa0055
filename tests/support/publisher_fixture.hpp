#pragma once

#include <memory>
#include <string>
#include <vector>

#include "broker/held_message.hpp"
#include "broker/publisher.hpp"

namespace sealane::testing {

/// A message as a reader at the destination sees it.
struct ArrivedMessage {
  std::string key;
  std::string value;
  Headers headers;
};

/// One destination of some kind, for the suite that says what every publisher promises.
class PublisherFixture {
 public:
  virtual ~PublisherFixture() = default;

  virtual std::unique_ptr<Publisher> Open(const HoldLimits& limits) = 0;
  std::unique_ptr<Publisher> Open() { return Open(HoldLimits{}); }
  /// The topic that tests publish to.
  virtual std::string topic() const { return "orders"; }
  /// What has arrived at the topic; messages of a key in their order. Waits until there are as many as `count`, for a
  /// generous time.
  virtual std::vector<ArrivedMessage> Arrived(std::size_t count) = 0;

  /// Only for the kinds of PublisherKindsWithOutage().
  virtual void BeginOutage() = 0;
  virtual void EndOutage() = 0;
  /// Whether health() can tell that the destination is away.
  virtual bool tells_outage() const { return true; }
};

/// The kinds there are: `memory`, `journal`, `http`, `stdout`, `kafka`.
std::vector<std::string> PublisherKinds();
/// Those whose destination a test can take away and bring back. Kafka is shared by many tests; its outages are shown
/// by tests of its own.
std::vector<std::string> PublisherKindsWithOutage();
/// Null, with a reason said aloud, when this kind cannot run here.
std::unique_ptr<PublisherFixture> MakePublisherFixture(const std::string& kind);

}  // namespace sealane::testing
