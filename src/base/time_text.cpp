#include "base/time_text.hpp"

#include <algorithm>
#include <cstdint>

namespace sealane {
namespace {

using std::chrono::days;
using std::chrono::microseconds;
using std::chrono::sys_days;

// Reads fixed-width pieces from the front of a text; once a piece does not fit, everything after it fails too.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  int Digits(std::size_t count) {
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!NextIsDigit()) {
        failed_ = true;
        return 0;
      }
      value = value * 10 + (text_.front() - '0');
      text_.remove_prefix(1);
    }
    return value;
  }

  void Expect(std::string_view any_of) {
    if (!Take(any_of)) failed_ = true;
  }

  bool Take(std::string_view any_of) {
    if (failed_ || text_.empty() || any_of.find(text_.front()) == std::string_view::npos) return false;
    text_.remove_prefix(1);
    return true;
  }

  bool NextIsDigit() const { return !failed_ && !text_.empty() && text_.front() >= '0' && text_.front() <= '9'; }
  bool Finished() const { return !failed_ && text_.empty(); }
  void Fail() { failed_ = true; }

 private:
  std::string_view text_;
  bool failed_ = false;
};

microseconds ReadFraction(Reader& in) {
  if (!in.Take(".")) return microseconds{0};
  int micros = 0;
  int digits = 0;
  for (; digits < 9 && in.NextIsDigit(); ++digits) {
    const int digit = in.Digits(1);
    if (digits < 6) micros = micros * 10 + digit;
  }
  if (digits == 0) in.Fail();
  for (; digits < 6; ++digits) micros *= 10;
  return microseconds{micros};
}

std::chrono::minutes ReadOffset(Reader& in) {
  if (in.Take("Zz")) return std::chrono::minutes{0};
  const bool west = in.Take("-");
  if (!west) in.Expect("+");
  const int hours = in.Digits(2);
  in.Expect(":");
  const int minutes = in.Digits(2);
  if (hours > 23 || minutes > 59) in.Fail();
  return std::chrono::minutes{(west ? -1 : 1) * (hours * 60 + minutes)};
}

// Overwrites `count` digits; returns the place behind them.
std::size_t PutDigits(std::string& out, std::size_t at, std::size_t count, std::int64_t value) {
  for (std::size_t i = count; i > 0; --i) {
    out[at + i - 1] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
  return at + count;
}

}  // namespace

std::string ToRfc3339(Timestamp time) {
  std::string text;
  AppendRfc3339(text, time);
  return text;
}

// Written by hand: two or three times per published event, where a formatter costs more than all other fields.
void AppendRfc3339(std::string& out, Timestamp time) {
  time = std::clamp(time, kTimestampMin, kTimestampMax);
  const auto day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss<microseconds> clock{time - day};
  std::size_t at = out.size();
  out += "0000-00-00T00:00:00.000000Z";
  at = PutDigits(out, at, 4, static_cast<int>(date.year())) + 1;
  at = PutDigits(out, at, 2, static_cast<unsigned>(date.month())) + 1;
  at = PutDigits(out, at, 2, static_cast<unsigned>(date.day())) + 1;
  at = PutDigits(out, at, 2, clock.hours().count()) + 1;
  at = PutDigits(out, at, 2, clock.minutes().count()) + 1;
  at = PutDigits(out, at, 2, clock.seconds().count()) + 1;
  PutDigits(out, at, 6, clock.subseconds().count());
}

std::optional<Timestamp> ParseRfc3339(std::string_view text) {
  Reader in(text);
  const int year = in.Digits(4);
  in.Expect("-");
  const int month = in.Digits(2);
  in.Expect("-");
  const int day = in.Digits(2);
  in.Expect("Tt");
  const int hour = in.Digits(2);
  in.Expect(":");
  const int minute = in.Digits(2);
  in.Expect(":");
  const int second = in.Digits(2);
  const microseconds fraction = ReadFraction(in);
  const std::chrono::minutes offset = ReadOffset(in);
  if (!in.Finished() || hour > 23 || minute > 59 || second > 59) return std::nullopt;

  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok()) return std::nullopt;
  const Timestamp time = Timestamp{sys_days{date}} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
                         std::chrono::seconds{second} + fraction - offset;
  if (time < kTimestampMin || time > kTimestampMax) return std::nullopt;
  return time;
}

}  // namespace sealane
