#include "config/secret_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/text.hpp"

namespace sealane::cli {
namespace {

constexpr std::string_view kOpen = "${file:";

Error Unreadable(const std::string& path, std::string_view why) {
  return Error(ErrorKind::kMisconfigured, "file_unreadable",
               fmt::format("cannot read {}: {}", EscapeForTerminal(path), why))
      .WithHint("is the path right, and may this user read it?");
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string PercentEncode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace

bool FileExists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 || errno != ENOENT;
}

Result<std::string> ReadSmallFile(const std::string& path, std::size_t bytes_max) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (!file) return Unreadable(path, std::strerror(errno));
  std::string content;
  char block[4096];
  while (const std::size_t count = std::fread(block, 1, sizeof block, file.get())) {
    content.append(block, count);
    if (content.size() > bytes_max) return Unreadable(path, fmt::format("it is larger than {} bytes", bytes_max));
  }
  if (std::ferror(file.get()) != 0) return Unreadable(path, std::strerror(errno));
  return content;
}

Result<std::string> ReadSecretFile(const std::string& path) {
  SEALANE_ASSIGN_OR_RETURN(std::string content, ReadSmallFile(path, std::size_t{64} << 10U));
  if (content.ends_with('\n')) content.pop_back();
  if (content.ends_with('\r')) content.pop_back();
  if (content.empty()) return Unreadable(path, "it is empty");
  if (content.find('\0') != std::string::npos) return Unreadable(path, "it contains a NUL");
  return content;
}

Result<std::string> ExpandSecrets(std::string_view text, bool is_url) {
  std::string out;
  while (true) {
    const std::size_t at = text.find("${");
    out += text.substr(0, at);
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at);
    const std::size_t end = text.find('}');
    if (!text.starts_with(kOpen) || end == std::string_view::npos) {
      return Error(ErrorKind::kMisconfigured, "bad_configuration", "`${` is not followed by file:/path}")
          .WithHint("write ${file:/path/to/secret}");
    }
    const std::string path(text.substr(kOpen.size(), end - kOpen.size()));
    SEALANE_ASSIGN_OR_RETURN(const std::string secret, ReadSecretFile(path));
    text.remove_prefix(end + 1);
    const bool alone = out.empty() && text.empty();
    out += is_url && !alone ? PercentEncode(secret) : secret;
  }
}

}  // namespace sealane::cli
