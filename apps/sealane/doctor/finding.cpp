#include "doctor/finding.hpp"

namespace sealane::cli {

std::string_view ToString(Finding::Level level) {
  switch (level) {
    case Finding::Level::kGood:
      return "ok";
    case Finding::Level::kNotice:
      return "notice";
    case Finding::Level::kWrong:
      return "wrong";
  }
  return "wrong";
}

Finding FindingFromError(std::string subject, const Error& error) {
  return {.level = Finding::Level::kWrong,
          .code = error.code(),
          .subject = std::move(subject),
          .symptom = error.message(),
          .evidence = error.native().empty() ? error.code() : error.native(),
          .next = error.hint()};
}

}  // namespace sealane::cli
