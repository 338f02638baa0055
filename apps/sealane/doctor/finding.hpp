#pragma once

#include <string>
#include <vector>

#include "sealane/error.hpp"

namespace sealane::cli {

/// One thing the doctor looked at.
struct Finding {
  enum class Level : std::uint8_t {
    kGood,
    kNotice,  ///< works, and will hurt some day
    kWrong,   ///< does not work
  };
  Level level = Level::kGood;
  std::string code;     ///< a stable snake_case word
  std::string subject;  ///< `store default`, `broker default`, `configuration`
  std::string symptom;  ///< one sentence
  std::string evidence = {};
  std::string next = {};  ///< what to type or change
};
/// `ok`, `notice`, `wrong`.
std::string_view ToString(Finding::Level level);

/// A failure as a finding: its hint is what to do next.
Finding FindingFromError(std::string subject, const Error& error);

}  // namespace sealane::cli
