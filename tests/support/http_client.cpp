#include "support/http_client.hpp"

#include <algorithm>
#include <cstdlib>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace sealane::testing {

HttpConnection::HttpConnection(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  const timeval patience{.tv_sec = 60, .tv_usec = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
  ::close(socket_);
  socket_ = -1;
}

HttpConnection::~HttpConnection() {
  if (socket_ >= 0) ::close(socket_);
}

bool HttpConnection::Send(const std::string& bytes) const {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

bool HttpConnection::More() {
  char block[4096];
  const ssize_t count = ::recv(socket_, block, sizeof block, 0);
  if (count <= 0) return false;
  buffer_.append(block, static_cast<std::size_t>(count));
  return true;
}

HttpAnswer HttpConnection::Read() {
  constexpr std::string_view kEnd = "\r\n\r\n";
  while (buffer_.find(kEnd) == std::string::npos) {
    if (!More()) return {};
  }
  const std::size_t end = buffer_.find(kEnd);
  HttpAnswer answer;
  answer.status = std::atoi(buffer_.substr(buffer_.find(' ') + 1, 3).c_str());
  std::size_t at = buffer_.find("\r\n") + 2;
  while (at < end) {
    const std::size_t line_end = buffer_.find("\r\n", at);
    const std::string line = buffer_.substr(at, line_end - at);
    const std::size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    answer.headers[name] = colon == std::string::npos ? "" : line.substr(colon + 2);
    at = line_end + 2;
  }
  const std::size_t size =
      answer.headers.contains("content-length") ? std::stoul(answer.headers.at("content-length")) : 0;
  while (buffer_.size() < end + kEnd.size() + size) {
    if (!More()) return {};
  }
  answer.body = buffer_.substr(end + kEnd.size(), size);
  buffer_.erase(0, end + kEnd.size() + size);
  return answer;
}

std::string PostText(const std::string& target, const HttpHeaders& headers, const std::string& body) {
  std::string text = fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n", target, body.size());
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  return text + "\r\n" + body;
}

HttpAnswer HttpPost(int port, const std::string& target, const HttpHeaders& headers, const std::string& body) {
  HttpConnection connection(port);
  if (!connection.connected()) return {};
  connection.Send(PostText(target, headers, body));
  return connection.Read();
}

}  // namespace sealane::testing
