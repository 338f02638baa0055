// Protects `sealane receive` from requests whose end is not certain: behind a proxy that reads them in another way,
// the rest of one would be taken for the next request of another client. Each is refused, and the connection is
// closed.

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/hex.hpp"
#include "base/hmac.hpp"
#include "support/child_process.hpp"
#include "support/http_client.hpp"
#include "support/running_receiver.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

constexpr const char* kBody = R"({"id":"outer","type":"Hook"})";
constexpr const char* kHidden = R"({"id":"hidden","type":"Hook"})";

std::string SignatureOf(const std::string& body) {
  return "X-Sig: " + ToHex(HmacSha256("s", body)) + "\r\n";
}

/// A request that is right in itself.
std::string Good(const std::string& body) {
  return fmt::format("POST /hooks/shop HTTP/1.1\r\nHost: x\r\n{}Content-Length: {}\r\n\r\n{}", SignatureOf(body),
                     body.size(), body);
}

/// A request with these header lines and this body, with a right one behind it.
std::string Head(const std::string& lines, const std::string& body, const std::string& first_line = "") {
  return fmt::format("{}Host: x\r\n{}{}\r\n{}{}", first_line.empty() ? "POST /hooks/shop HTTP/1.1\r\n" : first_line,
                     SignatureOf(kBody), lines, body, Good(kHidden));
}

std::string Chunks(const std::string& body) {
  return fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", body.size(), body);
}

struct Case {
  std::string name;
  std::string bytes;
  int status = 400;
};

std::vector<Case> Cases() {
  const std::string body = kBody;
  const std::string length = fmt::format("Content-Length: {}\r\n", body.size());
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  return {
      {"unknown_coding", Head("Transfer-Encoding: xchunked\r\n", ""), 501},
      {"unknown_coding_with_body", Head("Transfer-Encoding: xchunked\r\n", Chunks(body)), 501},
      {"identity", Head("Transfer-Encoding: identity\r\n", ""), 501},
      {"empty_coding", Head("Transfer-Encoding:\r\n", ""), 501},
      {"chunked_not_last", Head("Transfer-Encoding: chunked, gzip\r\n", Chunks(body)), 501},
      {"chunked_behind_another", Head("Transfer-Encoding: gzip, chunked\r\n", Chunks(body)), 501},
      {"chunked_twice_in_a_line", Head("Transfer-Encoding: chunked, chunked\r\n", Chunks(body)), 501},
      {"quoted", Head("Transfer-Encoding: \"chunked\"\r\n", Chunks(body)), 501},
      {"with_parameter", Head("Transfer-Encoding: chunked;q=1\r\n", Chunks(body)), 501},
      {"chunked_twice", Head(chunked + chunked, Chunks(body))},
      {"chunked_and_identity", Head(chunked + "Transfer-Encoding: identity\r\n", Chunks(body))},
      {"identity_and_chunked", Head("Transfer-Encoding: identity\r\n" + chunked, Chunks(body))},
      {"length_then_chunked", Head(length + chunked, Chunks(body))},
      {"chunked_then_length", Head(chunked + length, Chunks(body))},
      {"length_and_unknown_coding", Head(length + "Transfer-Encoding: xchunked\r\n", body)},
      {"chunked_in_http_1_0", Head(chunked, Chunks(body), "POST /hooks/shop HTTP/1.0\r\nConnection: keep-alive\r\n")},
      {"two_lengths", Head(length + "Content-Length: 0\r\n", body)},
      {"two_equal_lengths", Head(length + length, body)},
      {"list_of_lengths", Head(fmt::format("Content-Length: {0}, {0}\r\n", body.size()), body)},
      {"signed_length", Head(fmt::format("Content-Length: +{}\r\n", body.size()), body)},
      {"negative_length", Head("Content-Length: -1\r\n", "")},
      {"hexadecimal_length", Head("Content-Length: 0x1d\r\n", body)},
      {"empty_length", Head("Content-Length:\r\n", "")},
      {"enormous_length", Head("Content-Length: 18446744073709551645\r\n", body)},
      {"folded_coding", Head("Transfer-Encoding:\r\n chunked\r\n", Chunks(body))},
      {"folded_unknown_coding", Head("Transfer-Encoding: x\r\n\tchunked\r\n", Chunks(body))},
      {"folded_length", Head(fmt::format("Content-Length:\r\n {}\r\n", body.size()), body)},
      {"folded_other", Head(length + "X-Other: a\r\n b\r\n", body)},
      {"space_before_colon", Head("Transfer-Encoding : chunked\r\n", Chunks(body))},
      {"space_before_name", Head(length + "X: 1\r\n Transfer-Encoding: chunked\r\n", body)},
      {"bare_line_feeds", fmt::format("POST /hooks/shop HTTP/1.1\nHost: x\nContent-Length: 0\n\n{}", Good(kHidden))},
      {"bare_line_feed_in_head", Head(length + "X: 1\nTransfer-Encoding: chunked\r\n", body)},
      {"bare_line_feed_at_the_end",
       fmt::format("POST /hooks/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\n{}", Good(kHidden))},
      {"bare_carriage_return", Head(length + "X: 1\rTransfer-Encoding: chunked\r\n", body)},
      {"nul_in_value", Head(length + std::string("X: a\0b\r\n", 8), body)},
      {"two_hosts", Head(length + "Host: y\r\n", body)},
      {"chunk_size_with_prefix", Head(chunked, fmt::format("0x{}", Chunks(body)))},
      {"chunk_size_signed", Head(chunked, fmt::format("+{}", Chunks(body)))},
      {"chunk_size_too_large", Head(chunked, fmt::format("ffffffffffffffff{}", Chunks(body)))},
      {"chunk_with_bare_line_feed", Head(chunked, fmt::format("{:x}\n{}\r\n0\r\n\r\n", body.size(), body))},
      {"chunk_longer_than_its_size", Head(chunked, fmt::format("1\r\n{}\r\n0\r\n\r\n", body))},
  };
}

class ReceiveFraming : public ::testing::Test {
 protected:
  void SetUp() override {
    const CommandResult migrated = RunSealane({"migrate", "up", "--store", url()});
    ASSERT_EQ(migrated.code, 0) << migrated.err;
    receiver_ = std::make_unique<RunningReceiver>(
        file_.folder(), std::vector<std::string>{"--store", url(), "--provider", "shop", "--topic", "orders",
                                                 "--signature", "hmac", "--signature-header", "X-Sig", "--secret",
                                                 "env:HOOK_SECRET", "--id-field", "id", "--type-field", "type"});
  }
  std::string url() const { return "sqlite:" + file_.path(); }
  std::size_t Events() const {
    const CommandResult listed = RunSealane({"messages", "list", "--store", url(), "-o", "jsonl"});
    EXPECT_EQ(listed.code, 0) << listed.err;
    return static_cast<std::size_t>(std::count(listed.out.begin(), listed.out.end(), '\n'));
  }

  SqliteFile file_;
  std::unique_ptr<RunningReceiver> receiver_;
};

TEST_F(ReceiveFraming, ARequestWhoseEndIsNotCertainIsRefusedAndNothingIsReadBehindIt) {
  for (const Case& one : Cases()) {
    HttpConnection connection(receiver_->Port());
    ASSERT_TRUE(connection.connected());
    connection.Send(one.bytes);
    const HttpAnswer answer = connection.Read();
    EXPECT_EQ(answer.status, one.status) << one.name << ": " << answer.body;
    EXPECT_EQ(answer.headers.contains("connection") ? answer.headers.at("connection") : "", "close") << one.name;
    EXPECT_EQ(connection.Read().status, 0) << one.name << ": the rest was read as another request";
  }
  EXPECT_EQ(Events(), 0U);
}

TEST_F(ReceiveFraming, WhatIsRightIsTakenInEveryPiece) {
  // Both forms of a body, one behind the other on one connection, byte by byte.
  const std::string chunked =
      fmt::format("POST /hooks/shop HTTP/1.1\r\nHost: x\r\n{}Transfer-Encoding: Chunked\r\n\r\n{}",
                  SignatureOf(kBody), Chunks(kBody));
  HttpConnection connection(receiver_->Port());
  for (const char byte : chunked + Good(kHidden)) ASSERT_TRUE(connection.Send(std::string(1, byte)));
  EXPECT_EQ(connection.Read().status, 200);
  EXPECT_EQ(connection.Read().status, 200);
  EXPECT_EQ(Events(), 2U);
}

}  // namespace
}  // namespace sealane::testing
