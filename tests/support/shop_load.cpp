#include "support/shop_load.hpp"

#include <chrono>
#include <random>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include "support/eventually.hpp"
#include "support/pg_session.hpp"

namespace sealane::testing {
namespace {

constexpr const char* kTables =
    "CREATE TABLE counter (key text PRIMARY KEY, n bigint NOT NULL);"
    "CREATE TABLE business (key text, n bigint, event_id uuid, PRIMARY KEY (key, n));"
    "CREATE FUNCTION place(k text, topic text, tenant text) RETURNS void LANGUAGE plpgsql AS $$"
    "DECLARE m bigint; BEGIN"
    "  UPDATE counter SET n = counter.n + 1 WHERE counter.key = k RETURNING counter.n INTO m;"
    "  INSERT INTO business VALUES (k, m, sealane.emit(topic => place.topic, key => k, type => 'Placed',"
    "    payload => format('{\"n\":%s}', m), tenant => place.tenant));"
    "END $$;";

class Connection {
 public:
  explicit Connection(std::string url) : url_(std::move(url)) {}
  ~Connection() { PQfinish(connection_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool Open() {
    if (connection_ != nullptr && PQstatus(connection_) == CONNECTION_OK) return true;
    PQfinish(connection_);
    connection_ = PQconnectdb((url_ + "?connect_timeout=5").c_str());
    return PQstatus(connection_) == CONNECTION_OK;
  }
  bool Run(const std::string& sql) {
    PGresult* const result = PQexec(connection_, sql.c_str());
    const ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
  }

 private:
  std::string url_;
  PGconn* connection_ = nullptr;
};

}  // namespace

void ShopLoad::Prepare(const std::string& url) {
  PgSession session(url);
  session.Exec(kTables);
  session.Exec(fmt::format("INSERT INTO counter SELECT 'k' || g, 0 FROM generate_series(0, {}) g", kKeys - 1));
}

std::string ShopLoad::TenantOf(int key) {
  return key % 3 == 0 ? "" : fmt::format("t{}", key % 3);
}

ShopLoad::ShopLoad(std::string url, std::string topic, std::uint64_t seed, int writers)
    : url_(std::move(url)), topic_(std::move(topic)) {
  for (int i = 0; i < writers; ++i) {
    threads_.emplace_back([this, seed, i] { Write(seed * 100 + static_cast<std::uint64_t>(i)); });
  }
}

ShopLoad::~ShopLoad() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
}

void ShopLoad::Pause() {
  paused_ = true;
  EXPECT_TRUE(Eventually([&] { return busy_ == 0; })) << "a writer does not come to an end";
}

void ShopLoad::Resume() {
  limited_ = false;
  paused_ = false;
}

bool ShopLoad::AwaitMore(int count) {
  const std::int64_t wanted = committed_ + count;
  return Eventually([&] { return committed_ >= wanted; });
}

void ShopLoad::WriteMore(int count) {
  left_ = count;
  limited_ = true;
  paused_ = false;
  EXPECT_TRUE(Eventually([&] { return left_ <= 0; })) << "writers cannot write";
  Pause();
}

void ShopLoad::Write(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<std::uint64_t>(below)); };
  Connection connection(url_);
  while (!stop_) {
    ++busy_;
    if (paused_ || !connection.Open()) {
      --busy_;
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
      continue;
    }
    // In one order, so that writers do not lock each other out.
    std::set<int> keys = {draw(kKeys)};
    if (draw(4) == 0) keys.insert({draw(kKeys), draw(kKeys)});
    std::string sql = "BEGIN;";
    for (const int key : keys) {
      sql += fmt::format("SELECT place('k{}', '{}', '{}');", key, topic_, TenantOf(key));
    }
    const bool keep = draw(10) != 0;
    const bool done = connection.Run(sql) && connection.Run(keep ? "COMMIT" : "ROLLBACK");
    if (done && keep) {
      ++committed_;
      if (limited_ && --left_ <= 0) paused_ = true;
    }
    --busy_;
    // How often a shop sells something is what it is about; a database that is kept busy altogether shows less.
    std::this_thread::sleep_for(std::chrono::microseconds{draw(6'000)});
  }
}

}  // namespace sealane::testing
