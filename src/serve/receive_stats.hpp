#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/histogram.hpp"

namespace sealane {

/// What came from one provider, since the start.
struct ProviderStats {
  std::string provider = {};
  std::uint64_t accepted = 0;                         ///< events that were committed
  std::uint64_t duplicates = 0;                       ///< deliveries whose event was known
  std::uint64_t conflicts = 0;                        ///< deliveries with a known id and another body
  std::map<std::string, std::uint64_t> refused = {};  ///< by code; 4xx: sending the same again would not help
  std::uint64_t deferred = 0;                         ///< answered 503: the provider sends again
  Histogram seconds = {};                             ///< from the whole request to the answer, of those not refused
};

/// A server of webhooks, at one moment.
struct ReceiveStats {
  std::vector<ProviderStats> providers = {};
  std::map<std::string, std::uint64_t> strays = {};  ///< requests for nobody, by code
  std::size_t connections = 0;
  std::size_t under_way = 0;      ///< requests whose body is read or whose event is written
  std::uint64_t turned_away = 0;  ///< connections over the limit
  std::uint64_t timed_out = 0;    ///< requests that did not come in time
  bool store_reachable = false;
  bool draining = false;
  std::string problem_code = {};
  std::string problem = {};  ///< what is in the way; empty: nothing
};

}  // namespace sealane
