#include "commands/payload_source.hpp"

#include <istream>

#include <fmt/format.h>

#include "command.hpp"
#include "config/secret_file.hpp"

namespace sealane::cli {
namespace {

constexpr std::size_t kReadMax = std::size_t{64} << 20U;

Result<std::string> ReadAll(std::istream& in) {
  std::string bytes;
  char block[std::size_t{64} << 10U];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    bytes.append(block, static_cast<std::size_t>(in.gcount()));
    if (bytes.size() > kReadMax) {
      return Error(ErrorKind::kRejected, "payload_too_large", "standard input holds more than 64 MiB")
          .WithHint("store large content elsewhere and send a reference")
          .WithField("payload");
    }
  }
  if (in.bad()) return BadUsage("--payload: cannot read standard input", {}, "--payload");
  return bytes;
}

}  // namespace

Result<std::string> ReadPayload(const std::string& source, std::istream& in) {
  if (source == "-") return ReadAll(in);
  if (!source.starts_with('@')) return source;
  auto bytes = ReadSmallFile(source.substr(1), kReadMax);
  if (!bytes)
    return BadUsage(fmt::format("--payload: {}", bytes.error().message()), "is the path right?", "--payload");
  return bytes;
}

}  // namespace sealane::cli
