#include "bench_isolation/http_targets.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/session.hpp"

namespace sealane::bench {

HttpTargets::HttpTargets(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto target = std::make_unique<Target>();
    target->listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    if (::bind(target->listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::listen(target->listener, 128) != 0 ||
        ::getsockname(target->listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      Fail("no port for an HTTP target");
    }
    target->port = ntohs(address.sin_port);
    targets_.push_back(std::move(target));
  }
  server_ = std::jthread([this](const std::stop_token& stop) { Serve(stop); });
}

HttpTargets::~HttpTargets() {
  server_.request_stop();
  server_.join();
  for (const auto& target : targets_) ::close(target->listener);
}

std::string HttpTargets::url(std::size_t target) const {
  return fmt::format("http://127.0.0.1:{}", targets_[target]->port);
}

void HttpTargets::Serve(const std::stop_token& stop) {
  std::vector<Connection> connections;
  while (!stop.stop_requested()) {
    std::vector<pollfd> waits;
    for (const auto& target : targets_) waits.push_back({target->listener, POLLIN, 0});
    for (const Connection& connection : connections) waits.push_back({connection.socket, POLLIN, 0});
    if (::poll(waits.data(), waits.size(), 100) <= 0) continue;
    for (std::size_t i = 0; i < connections.size(); ++i) {
      if (waits[targets_.size() + i].revents != 0 && !Answer(connections[i])) {
        ::close(connections[i].socket);
        connections[i].socket = -1;
      }
    }
    std::erase_if(connections, [](const Connection& connection) { return connection.socket < 0; });
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (waits[i].revents == 0) continue;
      const int socket = ::accept4(targets_[i]->listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket >= 0) connections.push_back({socket, targets_[i].get(), {}});
    }
  }
  for (const Connection& connection : connections) ::close(connection.socket);
}

bool HttpTargets::Answer(Connection& connection) {
  std::array<char, 16'384> bytes;
  const ssize_t got = ::recv(connection.socket, bytes.data(), bytes.size(), 0);
  if (got <= 0) return false;
  connection.buffer.append(bytes.data(), static_cast<std::size_t>(got));
  for (;;) {
    const std::size_t head = connection.buffer.find("\r\n\r\n");
    if (head == std::string::npos) return true;
    std::string names = connection.buffer.substr(0, head);
    std::ranges::transform(names, names.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    constexpr std::string_view kLength = "content-length:";
    const std::size_t found = names.find(kLength);
    const std::size_t body =
        found == std::string::npos ? 0 : std::strtoull(names.c_str() + found + kLength.size(), nullptr, 10);
    if (connection.buffer.size() < head + 4 + body) return true;
    connection.buffer.erase(0, head + 4 + body);
    connection.target->requests.fetch_add(1);
    if (connection.target->hangs) continue;
    constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    if (::send(connection.socket, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL) < 0) return false;
  }
}

}  // namespace sealane::bench
