#include "support/http_receiver.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sealane::testing {
namespace {

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool ReadMore(int connection, std::string& buffer) {
  std::array<char, 16'384> block{};
  const ssize_t count = ::recv(connection, block.data(), block.size(), 0);
  if (count <= 0) return false;
  buffer.append(block.data(), static_cast<std::size_t>(count));
  return true;
}

bool SendAll(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

HttpReceiver::Request ParseHead(std::string_view head) {
  HttpReceiver::Request request;
  std::size_t at = head.find("\r\n");
  const std::string_view first = head.substr(0, at);
  const std::size_t space = first.find(' ');
  request.method = first.substr(0, space);
  request.target = first.substr(space + 1, first.rfind(' ') - space - 1);
  while (at != std::string_view::npos && at + 2 < head.size()) {
    const std::size_t end = head.find("\r\n", at + 2);
    const std::string_view line = head.substr(at + 2, end == std::string_view::npos ? end : end - at - 2);
    const std::size_t colon = line.find(':');
    std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    request.headers.emplace(Lower(std::string(line.substr(0, colon))), value);
    at = end;
  }
  return request;
}

}  // namespace

std::string HttpReceiver::Request::Header(const std::string& lower_name) const {
  const auto found = headers.find(lower_name);
  return found == headers.end() ? "<none>" : found->second;
}

HttpReceiver::HttpReceiver() : handler_([](const Request&) { return Answer{}; }) {
  Start();
}

HttpReceiver::~HttpReceiver() {
  Stop();
}

std::string HttpReceiver::url(const std::string& path) const {
  return fmt::format("http://127.0.0.1:{}{}", port_, path);
}

void HttpReceiver::SetHandler(Handler handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
}

void HttpReceiver::Start() {
  Listen();
  acceptor_ = std::jthread([this] { Accept(); });
}

void HttpReceiver::Listen() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(listener_, 0);
  const int on = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port_));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener_, 128), 0);
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
}

void HttpReceiver::Stop() {
  if (listener_ < 0) return;
  ::shutdown(listener_, SHUT_RDWR);  // wakes the acceptor
  acceptor_ = {};
  ::close(listener_);
  listener_ = -1;
  {
    const std::lock_guard lock(mutex_);
    for (const int connection : connections_) ::shutdown(connection, SHUT_RDWR);
  }
  servers_.clear();
}

void HttpReceiver::Accept() {
  while (true) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    const int on = 1;
    ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const std::lock_guard lock(mutex_);
    connections_.push_back(connection);
    servers_.emplace_back([this, connection] { Serve(connection); });
  }
}

void HttpReceiver::Serve(int connection) {
  std::string buffer;
  while (AnswerOne(connection, buffer)) {
  }
  const std::lock_guard lock(mutex_);
  std::erase(connections_, connection);
  ::close(connection);
}

bool HttpReceiver::AnswerOne(int connection, std::string& buffer) {
  std::size_t head_end = buffer.find("\r\n\r\n");
  while (head_end == std::string::npos) {
    if (!ReadMore(connection, buffer)) return false;
    head_end = buffer.find("\r\n\r\n");
  }
  Request request = ParseHead(std::string_view(buffer).substr(0, head_end));
  const std::string length_text = request.Header("content-length");
  std::size_t length = 0;
  std::from_chars(length_text.data(), length_text.data() + length_text.size(), length);
  const std::size_t body = head_end + 4;
  while (buffer.size() < body + length) {
    if (!ReadMore(connection, buffer)) return false;
  }
  request.body = buffer.substr(body, length);
  buffer.erase(0, body + length);

  Handler handler;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    busiest_ = std::max(busiest_, ++busy_);
    handler = handler_;
  }
  arrived_.notify_all();
  const Answer answer = handler(request);
  {
    const std::lock_guard lock(mutex_);
    --busy_;
  }
  if (answer.hang_up) return false;
  if (!answer.raw.empty()) return SendAll(connection, answer.raw);
  std::string text = fmt::format("HTTP/1.1 {} Status\r\nContent-Length: {}\r\n", answer.status, answer.body.size());
  for (const auto& [name, value] : answer.headers) text += fmt::format("{}: {}\r\n", name, value);
  return SendAll(connection, text + "\r\n" + answer.body);
}

std::vector<HttpReceiver::Request> HttpReceiver::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpReceiver::AwaitRequests(std::size_t count) const {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(arrived_.wait_for(lock, std::chrono::seconds{30}, [&] { return requests_.size() >= count; }))
      << "only " << requests_.size() << " requests came";
}

std::size_t HttpReceiver::busiest() const {
  const std::lock_guard lock(mutex_);
  return busiest_;
}

}  // namespace sealane::testing
