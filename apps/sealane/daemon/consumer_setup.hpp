#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "inbox/consumer.hpp"

namespace sealane::cli {

/// One consumer of this process: where its events come from, where their effects go, and which they are.
struct ConsumerSetup {
  ConsumerOptions options;
  std::vector<std::string> topics;
  std::string group;   ///< at the broker; the consumer's name unless told
  std::string member;  ///< stable over restarts; empty: a new one with every start
  std::chrono::milliseconds session = std::chrono::seconds{10};  ///< others take over after this much silence
  Settings store;
  Settings broker;
};

/// Whether the broker's section names one that can be read, without reaching for it: kMisconfigured
/// (`broker_not_readable`, or a URL that is none).
Status CheckSource(const ConsumerSetup& setup);

/// The subscription that the broker's section names. kMisconfigured (`broker_not_readable`) for destinations that
/// nothing can be read from.
Result<std::unique_ptr<Subscription>> OpenSource(const ConsumerSetup& setup, Clock& clock, Random& random);

/// A consumer between the broker and the store that the set-up names.
std::unique_ptr<Consumer> MakeConsumer(const ConsumerSetup& setup, Handling handling, Clock& clock, Random& random);

}  // namespace sealane::cli
