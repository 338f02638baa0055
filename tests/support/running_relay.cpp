#include "support/running_relay.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/eventually.hpp"

namespace sealane::testing {

using nlohmann::json;

std::string HttpGet(int port, const std::string& target) {
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  std::string answer;
  if (::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    const std::string request =
        fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", target);
    ::send(client, request.data(), request.size(), MSG_NOSIGNAL);
    char block[4096];
    for (ssize_t count = 0; (count = ::recv(client, block, sizeof block, 0)) > 0;) {
      answer.append(block, static_cast<std::size_t>(count));
    }
  }
  ::close(client);
  return answer;
}

RunningRelay::RunningRelay(const std::string& folder, const std::vector<std::string>& options,
                           std::map<std::string, std::string> variables)
    : log_path_(folder + "/relay.log") {
  std::filesystem::remove(log_path_);
  variables["LOG"] = log_path_;
  std::vector<std::string> command = {"/bin/sh", "-c", "exec \"$@\" 2>\"$LOG\"", "sh", SEALANE_TEST_BINARY, "relay"};
  command.insert(command.end(), options.begin(), options.end());
  process_ = std::make_unique<ChildProcess>(command, variables, folder);
}

std::string RunningRelay::log() const {
  std::ifstream file(log_path_);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool RunningRelay::Says(const std::string& text) const {
  return Eventually([&] { return log().find(text) != std::string::npos; });
}

std::string RunningRelay::LineWith(const std::vector<std::string>& texts) const {
  std::istringstream lines(log());
  for (std::string line; std::getline(lines, line);) {
    const auto has = [&](const std::string& text) { return line.find(text) != std::string::npos; };
    if (std::all_of(texts.begin(), texts.end(), has)) return line;
  }
  return {};
}

int RunningRelay::port() const {
  const std::string before = "probes=http://127.0.0.1:";
  EXPECT_TRUE(Says(before)) << log();
  const std::string text = log();
  return std::stoi(text.substr(text.find(before) + before.size()));
}

json RunningRelay::Readiness(const std::string& store, const std::string& route) const {
  const std::string answer = Get("/readyz");
  const std::size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos) return json::object();
  const json all = json::parse(answer.substr(body + 4));
  for (const json& one : all["routes"]) {
    if (one["store"] == store && one["route"] == route) return one;
  }
  return json::object();
}

std::string RunningRelay::Metric(const std::string& name_and_labels) const {
  std::istringstream lines(Get("/metrics"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name_and_labels + ' ')) return line.substr(name_and_labels.size() + 1);
  }
  return {};
}

CommandResult RunningRelay::Stop() const {
  Signal(SIGTERM);
  return Finish();
}

}  // namespace sealane::testing
