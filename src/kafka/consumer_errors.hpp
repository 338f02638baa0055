#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <librdkafka/rdkafka.h>

#include "sealane/error.hpp"

namespace sealane::kafka {

/// What an error of librdkafka means to one that reads.
enum class ReadingTrouble : std::uint8_t {
  kNone,     ///< the group goes on without us, or there was nothing to do: not an error
  kPasses,   ///< an outage, or something unheard of: wait
  kMissing,  ///< the topic is not there: wait, and say so
  kFinal,    ///< waiting does not heal it
};
ReadingTrouble TroubleOf(rd_kafka_resp_err_t error);

/// The error of Poll() for what is kFinal.
Error FinalError(rd_kafka_resp_err_t error, std::string_view text);

}  // namespace sealane::kafka
