#include "serve/http_framing.hpp"

#include <algorithm>

namespace sealane {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

constexpr char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool IsNamed(std::string_view given, std::string_view lower_name) {
  return std::equal(given.begin(), given.end(), lower_name.begin(), lower_name.end(),
                    [](char a, char b) { return Lower(a) == b; });
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

bool IsPlainNumber(std::string_view text) {
  return !text.empty() && text.size() <= 18 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<FramingFault> CheckLineEnds(std::string_view head) {
  for (std::size_t i = 0; i < head.size(); ++i) {
    if (head[i] == '\0') return FramingFault{400, "the head has a NUL byte"};
    const bool bare_feed = head[i] == '\n' && (i == 0 || head[i - 1] != '\r');
    const bool bare_return = head[i] == '\r' && i + 1 < head.size() && head[i + 1] != '\n';
    if (bare_feed || bare_return) return FramingFault{400, "a line of the head does not end with CR LF"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> FindHeadEnd(std::string_view bytes) {
  constexpr std::string_view kBlankLine = "\r\n\r\n";
  const std::size_t at = bytes.find(kBlankLine);
  if (at == std::string_view::npos) return std::nullopt;
  return at + kBlankLine.size();
}

std::optional<FramingFault> CheckFraming(std::string_view head) {
  if (auto fault = CheckLineEnds(head)) return fault;
  int lengths = 0;
  int codings = 0;
  int hosts = 0;
  bool plain = true;
  bool chunked = true;
  std::size_t line_end = head.find(kLineEnd);
  const bool is_old = line_end != std::string_view::npos && head.substr(0, line_end).ends_with("HTTP/1.0");
  while (line_end != std::string_view::npos) {
    head.remove_prefix(line_end + kLineEnd.size());
    line_end = head.find(kLineEnd);
    const std::string_view line = head.substr(0, line_end);
    if (line.starts_with(' ') || line.starts_with('\t')) return FramingFault{400, "a line of the head is folded"};
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || line_end == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = Trimmed(line.substr(colon + 1));
    if (name.ends_with(' ') || name.ends_with('\t')) return FramingFault{400, "a header's name ends with a blank"};
    if (IsNamed(name, "host")) ++hosts;
    if (IsNamed(name, "content-length")) {
      ++lengths;
      plain = plain && IsPlainNumber(value);
    }
    if (IsNamed(name, "transfer-encoding")) {
      ++codings;
      chunked = chunked && IsNamed(value, "chunked");
    }
  }
  if (hosts > 1) return FramingFault{400, "there is more than one Host"};
  if (lengths > 1) return FramingFault{400, "there is more than one Content-Length"};
  if (!plain) return FramingFault{400, "Content-Length is no plain number"};
  if (codings > 1) return FramingFault{400, "there is more than one Transfer-Encoding"};
  if (codings > 0 && lengths > 0) return FramingFault{400, "Content-Length and Transfer-Encoding exclude each other"};
  if (codings > 0 && is_old) return FramingFault{400, "HTTP/1.0 has no Transfer-Encoding"};
  if (!chunked) return FramingFault{501, "a body is taken with Content-Length or Transfer-Encoding: chunked"};
  return std::nullopt;
}

}  // namespace sealane
