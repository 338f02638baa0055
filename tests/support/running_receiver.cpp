#include "support/running_receiver.hpp"

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/hmac.hpp"

namespace sealane::testing {
namespace {

std::vector<std::string> Command(const std::vector<std::string>& options) {
  std::vector<std::string> command = {SEALANE_TEST_BINARY, "receive",    "--log-format", "json",
                                      "--listen",          "127.0.0.1:0"};
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

std::map<std::string, std::string> WithSecret(std::map<std::string, std::string> variables) {
  variables.emplace("HOOK_SECRET", "s");
  return variables;
}

}  // namespace

RunningReceiver::RunningReceiver(const std::string& folder, const std::vector<std::string>& options,
                                 std::map<std::string, std::string> variables)
    : RunningProgram("receive", Command(options), WithSecret(std::move(variables)), folder) {}

int RunningReceiver::Port(const std::string& name) const {
  return PortAfter(fmt::format("\"{}\":\"http://127.0.0.1:", name));
}

HttpAnswer RunningReceiver::Post(const std::string& body, const std::string& path) const {
  return HttpPost(Port(), path, {{"X-Sig", ToHex(HmacSha256("s", body))}, {"Content-Type", "application/json"}},
                  body);
}

}  // namespace sealane::testing
