#pragma once

#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>

#include "sealane/assert.hpp"
#include "sealane/error.hpp"

namespace sealane {

/// A value or the Error that kept it from being made. Shaped like std::expected, which C++20 lacks.
///
/// Looking at the wrong side is a programming error and aborts. For callers that prefer exceptions there is
/// ValueOrThrow().
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & {
    SEALANE_ASSERT(has_value(), "a result is read as a value only after it was checked");
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    SEALANE_ASSERT(has_value(), "a result is read as a value only after it was checked");
    return *std::get_if<0>(&state_);
  }
  T&& value() && { return std::move(value()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    SEALANE_ASSERT(!has_value(), "a result is read as an error only after it was checked");
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    SEALANE_ASSERT(!has_value(), "a result is read as an error only after it was checked");
    return std::move(*std::get_if<1>(&state_));
  }

  template <class U>
  T value_or(U&& other) const& {
    return has_value() ? value() : static_cast<T>(std::forward<U>(other));
  }

 private:
  std::variant<T, Error> state_;
};

/// The value of an operation that only succeeds or fails.
struct Done {};
using Status = Result<Done>;
inline Status Ok() {
  return Status(Done{});
}

/// What ValueOrThrow() throws.
class SealaneException : public std::runtime_error {
 public:
  explicit SealaneException(Error error) : std::runtime_error(error.ToString()), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

/// For applications that like exceptions: unwraps, or throws a SealaneException.
template <class T>
T ValueOrThrow(Result<T> result) {
  if (!result) throw SealaneException(std::move(result).error());
  return std::move(result).value();
}

}  // namespace sealane

#define SEALANE_CONCAT_IMPL(a, b) a##b
#define SEALANE_CONCAT(a, b) SEALANE_CONCAT_IMPL(a, b)

/// Leaves the current function with the error, if there is one.
#define SEALANE_RETURN_IF_ERROR(expression)                    \
  do {                                                         \
    if (auto sealane_status = (expression); !sealane_status) { \
      return std::move(sealane_status).error();                \
    }                                                          \
  } while (false)

/// Declares `declaration` from the value of `expression`, or leaves the current function with the error.
#define SEALANE_ASSIGN_OR_RETURN(declaration, expression)                \
  auto SEALANE_CONCAT(sealane_result_, __LINE__) = (expression);         \
  if (!SEALANE_CONCAT(sealane_result_, __LINE__)) {                      \
    return std::move(SEALANE_CONCAT(sealane_result_, __LINE__)).error(); \
  }                                                                      \
  declaration = std::move(SEALANE_CONCAT(sealane_result_, __LINE__)).value()
