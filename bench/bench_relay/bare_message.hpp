#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "core/wire_encoder.hpp"

namespace sealane::bench {

/// Statement whose binary COPY gives rows for BareMessage: only what the message needs.
std::string BareCopy();

/// A row of BareCopy() as the message that the profile `cloudevents` makes of it, by the shortest way: every column
/// has its fixed header. What it borrows lies in the row.
class BareMessage {
 public:
  /// False for what is no row: the trailer of COPY.
  bool Read(std::string_view copied);

  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }
  std::span<const HeaderView> headers() const { return {headers_.data(), header_count_}; }

 private:
  void Add(std::string_view name, std::string_view value);
  /// What was appended to texts_ since `begin`.
  std::string_view Since(std::size_t begin) const { return std::string_view(texts_).substr(begin); }

  std::string_view key_;
  std::string_view value_;
  std::array<HeaderView, 24> headers_{};
  std::size_t header_count_ = 0;
  std::string texts_;
};

/// Ends the benchmark unless the first rows of the outbox become the same messages as our encoder makes of them.
void CheckBareMessages(const std::string& url);

}  // namespace sealane::bench
