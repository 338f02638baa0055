#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/random.hpp"
#include "sealane/result.hpp"

#include "broker/subscription.hpp"
#include "inbox/incoming.hpp"

namespace sealane {

/// Where events come from, and as whom they are read.
struct SourceAddress {
  std::string url;  ///< `kafka://host:port,...` or `journal:PATH`
  std::string group;
  std::string member = {};  ///< stable over restarts; empty: a new one with every start
  std::vector<std::string> topics = {};
  std::chrono::milliseconds session = std::chrono::seconds{10};  ///< others take over after this much silence
  std::vector<std::pair<std::string, std::string>> kafka_properties = {};  ///< of librdkafka
  std::int32_t journal_partitions = 16;  ///< of topics that are made when they are missing
};

/// Whether something can be read there, without reaching for it: kMisconfigured (`broker_not_readable`, or
/// `bad_broker_url`).
Status CheckReadable(std::string_view url);

/// The subscription at that address. The clock must outlive it.
Result<std::unique_ptr<Subscription>> OpenSubscriptionAt(const SourceAddress& address, Clock& clock, Random& random);

/// Reads messages in any of our wire forms.
ReadEnvelope MakeEnvelopeReader();

}  // namespace sealane
