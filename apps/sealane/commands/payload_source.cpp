#include "commands/payload_source.hpp"

#include <istream>

#include <fmt/format.h>

#include "command.hpp"
#include "config/secret_file.hpp"

namespace sealane::cli {
namespace {

constexpr std::size_t kReadMax = std::size_t{64} << 20U;

Result<std::string> ReadAll(std::istream& in, const std::string& flag) {
  std::string bytes;
  char block[std::size_t{64} << 10U];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    bytes.append(block, static_cast<std::size_t>(in.gcount()));
    if (bytes.size() > kReadMax) {
      return Error(ErrorKind::kRejected, "payload_too_large", "standard input holds more than 64 MiB")
          .WithHint("store large content elsewhere and send a reference")
          .WithField(flag.substr(2));
    }
  }
  if (in.bad()) return BadUsage(fmt::format("{}: cannot read standard input", flag), {}, flag);
  return bytes;
}

}  // namespace

Result<std::string> ReadPayload(const std::string& source, std::istream& in, const std::string& flag) {
  if (source == "-") return ReadAll(in, flag);
  if (!source.starts_with('@')) return source;
  auto bytes = ReadSmallFile(source.substr(1), kReadMax);
  if (!bytes) return BadUsage(fmt::format("{}: {}", flag, bytes.error().message()), "is the path right?", flag);
  return bytes;
}

}  // namespace sealane::cli
