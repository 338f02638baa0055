// Protects /metrics: what Prometheus reads is well-formed whatever names come in, and bounded however many there are.

#include "serve/metrics.hpp"

#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sealane {
namespace {

using Labels = std::map<std::string, std::string>;

struct Sample {
  std::string name;
  Labels labels;
  double value = 0;
};

/// Reads the text format 0.0.4 and fails the test for anything that the format does not allow.
class StrictParser {
 public:
  explicit StrictParser(const std::string& text) {
    EXPECT_TRUE(text.empty() || text.ends_with('\n')) << "the last line has its line break";
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) Line(line);
  }

  const std::vector<Sample>& samples() const { return samples_; }
  const std::map<std::string, std::string>& types() const { return types_; }

  std::optional<double> Value(const std::string& name, const Labels& labels) const {
    for (const Sample& sample : samples_) {
      if (sample.name == name && sample.labels == labels) return sample.value;
    }
    return std::nullopt;
  }

 private:
  static bool IsName(std::string_view name, bool colon) {
    if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
    for (const char c : name) {
      const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                        (colon && c == ':');
      if (!fits) return false;
    }
    return true;
  }

  void Line(const std::string& line) {
    ASSERT_FALSE(line.empty());
    if (line.starts_with("# HELP ")) return Help(line.substr(7));
    if (line.starts_with("# TYPE ")) return Type(line.substr(7));
    ASSERT_NE(line[0], '#') << line;
    TakeSample(line);
  }

  void Help(const std::string& rest) {
    const std::string name = rest.substr(0, rest.find(' '));
    EXPECT_TRUE(IsName(name, true)) << rest;
    EXPECT_TRUE(helped_.insert(name).second) << "one HELP per family: " << name;
    EXPECT_GT(rest.size(), name.size() + 1) << "a help text for " << name;
    family_ = name;
  }

  void Type(const std::string& rest) {
    const std::size_t space = rest.find(' ');
    ASSERT_NE(space, std::string::npos);
    const std::string name = rest.substr(0, space);
    const std::string type = rest.substr(space + 1);
    EXPECT_EQ(name, family_) << "TYPE follows HELP";
    EXPECT_TRUE(type == "gauge" || type == "counter" || type == "histogram") << type;
    EXPECT_TRUE(types_.emplace(name, type).second) << "one TYPE per family: " << name;
    EXPECT_EQ(type == "counter", name.ends_with("_total")) << name;
  }

  void TakeSample(const std::string& line) {
    Sample sample;
    std::size_t at = line.find_first_of("{ ");
    ASSERT_NE(at, std::string::npos) << line;
    sample.name = line.substr(0, at);
    EXPECT_TRUE(IsName(sample.name, true)) << line;
    if (line[at] == '{') at = TakeLabels(line, at + 1, sample);
    ASSERT_LT(at, line.size()) << line;
    ASSERT_EQ(line[at], ' ') << line;
    const std::string number = line.substr(at + 1);
    const auto [rest, failure] = std::from_chars(number.data(), number.data() + number.size(), sample.value);
    EXPECT_TRUE(failure == std::errc{} && rest == number.data() + number.size()) << line;
    CheckFamily(sample);
    EXPECT_TRUE(seen_.insert({sample.name, sample.labels}).second) << "twice: " << line;
    samples_.push_back(std::move(sample));
  }

  // Returns the place after the closing brace.
  static std::size_t TakeLabels(const std::string& line, std::size_t at, Sample& sample) {
    while (at < line.size() && line[at] != '}') {
      const std::size_t equals = line.find('=', at);
      if (equals == std::string::npos || line[equals + 1] != '"') {
        ADD_FAILURE() << line;
        return line.size();
      }
      const std::string name = line.substr(at, equals - at);
      EXPECT_TRUE(IsName(name, false)) << line;
      std::string value;
      for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] != '\\') {
          value += line[at];
          continue;
        }
        const char escaped = line[++at];
        EXPECT_TRUE(escaped == '\\' || escaped == '"' || escaped == 'n') << line;
        value += escaped == 'n' ? '\n' : escaped;
      }
      EXPECT_TRUE(sample.labels.emplace(name, value).second) << "a label twice: " << line;
      ++at;
      if (at < line.size() && line[at] == ',') ++at;
    }
    return at + 1;
  }

  void CheckFamily(const Sample& sample) {
    std::string family = sample.name;
    const auto type = types_.find(family_);
    ASSERT_NE(type, types_.end()) << sample.name;
    if (type->second == "histogram") {
      for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
        if (family.ends_with(suffix)) family.resize(family.size() - suffix.size());
      }
    }
    EXPECT_EQ(family, family_) << "the lines of a family stand together";
  }

  std::string family_;
  std::set<std::string> helped_;
  std::map<std::string, std::string> types_;
  std::vector<Sample> samples_;
  std::set<std::pair<std::string, Labels>> seen_;
};

RouteStats Running() {
  RouteStats stats;
  stats.store = "default";
  stats.route = "main";
  stats.state = RelayState::kRunning;
  stats.lanes = 64;
  stats.held = {{.lane = 0, .epoch = 3}, {.lane = 1, .epoch = 4}};
  stats.published = 12;
  stats.topics = {{"orders", 7}, {"mail", 5}};
  stats.last_beat_at = Timestamp{std::chrono::milliseconds{1'700'000'000'500}};
  return stats;
}

TEST(Metrics, AreWellFormedForNoRelayAtAll) {
  const StrictParser parsed(RenderMetrics({}, {{"version", "1.2.3"}}));
  EXPECT_EQ(parsed.Value("sealane_build_info", {{"version", "1.2.3"}}), 1);
}

TEST(Metrics, TellWhatARelayKnows) {
  const std::vector<RouteStats> relays = {Running()};
  const StrictParser parsed(RenderMetrics(relays, {}));
  const Labels base = {{"store", "default"}, {"route", "main"}};
  EXPECT_EQ(parsed.Value("sealane_relay_lease_held", base), 2);
  EXPECT_EQ(parsed.Value("sealane_relay_lanes", base), 64);
  EXPECT_EQ(parsed.Value("sealane_relay_heartbeat_timestamp_seconds", base), 1'700'000'000.5);
  Labels orders = base;
  orders["topic"] = "orders";
  EXPECT_EQ(parsed.Value("sealane_published_messages_total", orders), 7);
  Labels state = base;
  state["state"] = "running";
  EXPECT_EQ(parsed.Value("sealane_relay_state", state), 1);
  state["state"] = "holding";
  EXPECT_EQ(parsed.Value("sealane_relay_state", state), 0);
}

TEST(Metrics, TellWhatWaitsAtAConsumer) {
  ConsumerStats stats;
  stats.consumer = "billing";
  stats.gaps = 3;
  stats.dead = 2;
  stats.hash_mismatches = 1;
  const StrictParser parsed(RenderMetrics({}, {}, {&stats, 1}));
  const Labels labels = {{"consumer", "billing"}};
  EXPECT_EQ(parsed.Value("sealane_inbox_open_gaps", labels), 3);
  EXPECT_EQ(parsed.Value("sealane_inbox_dead_messages", labels), 2);
  EXPECT_EQ(parsed.Value("sealane_inbox_hash_mismatches_total", labels), 1);
}

TEST(Metrics, HaveTheNamesThatAlertsRelyOn) {
  const std::vector<RouteStats> relays = {Running()};
  const StrictParser parsed(RenderMetrics(relays, {}));
  for (const char* name :
       {"sealane_build_info", "sealane_pending_messages", "sealane_oldest_pending_age_seconds",
        "sealane_publish_attempts_total", "sealane_published_messages_total", "sealane_published_bytes_total",
        "sealane_publish_failures_total", "sealane_commit_to_publish_seconds", "sealane_inflight_messages",
        "sealane_inflight_bytes", "sealane_dead_lettered_messages_total", "sealane_relay_lease_held",
        "sealane_relay_heartbeat_timestamp_seconds", "sealane_paused"}) {
    EXPECT_TRUE(parsed.types().contains(name)) << name;
  }
}

TEST(Metrics, SurviveHostileNames) {
  RouteStats stats = Running();
  const std::string hostile = "a\"b\\c\nd} 5\n# TYPE x";
  stats.store = hostile;
  stats.topics = {{hostile, 1}, {std::string("\xff\xfe", 2), 2}, {std::string(5'000, 'x'), 3}, {"", 4}};
  stats.published = 10;
  const std::vector<RouteStats> relays = {stats};
  const StrictParser parsed(RenderMetrics(relays, {{"version", hostile}}));
  EXPECT_EQ(
      parsed.Value("sealane_published_messages_total", {{"store", hostile}, {"route", "main"}, {"topic", hostile}}),
      1);
  EXPECT_EQ(parsed.Value("sealane_published_messages_total",
                         {{"store", hostile}, {"route", "main"}, {"topic", std::string(kMetricLabelMax, 'x')}}),
            3);
}

TEST(Metrics, CutLabelsBetweenCharacters) {
  RouteStats stats = Running();
  std::string long_name = "x";
  while (long_name.size() < 3 * kMetricLabelMax) long_name += "\xc3\xa9";
  stats.topics = {{long_name, 12}};
  const std::vector<RouteStats> relays = {stats};
  const StrictParser parsed(RenderMetrics(relays, {}));
  EXPECT_EQ(
      parsed.Value("sealane_published_messages_total",
                   {{"store", "default"}, {"route", "main"}, {"topic", long_name.substr(0, kMetricLabelMax - 1)}}),
      12);
}

TEST(Metrics, AddUpWhatIsTooMuchUnderOther) {
  RouteStats stats = Running();
  stats.topics.clear();
  std::uint64_t total = 0;
  for (std::uint64_t i = 1; i <= 500; ++i) {
    stats.topics[fmt::format("t{}", i)] = i;
    total += i;
  }
  stats.topics["other"] = 1'000;
  stats.published = total + 1'000 + 50;  // some topics were forgotten by the relay itself
  const std::vector<RouteStats> relays = {stats};
  const StrictParser parsed(RenderMetrics(relays, {}));
  double sum = 0;
  std::size_t series = 0;
  for (const Sample& sample : parsed.samples()) {
    if (sample.name != "sealane_published_messages_total") continue;
    sum += sample.value;
    ++series;
  }
  EXPECT_EQ(series, kMetricTopicsMax + 1);
  EXPECT_EQ(sum, static_cast<double>(stats.published));
  EXPECT_TRUE(
      parsed.Value("sealane_published_messages_total", {{"store", "default"}, {"route", "main"}, {"topic", "t500"}}))
      << "the busiest stay";
}

TEST(Metrics, HistogramIsCumulativeAndEndsWithEverything) {
  RouteStats stats = Running();
  for (const double seconds : {0.0001, 0.002, 0.002, 0.7, 1'000.0}) stats.commit_to_publish.Add(seconds);
  const std::vector<RouteStats> relays = {stats};
  const StrictParser parsed(RenderMetrics(relays, {}));
  double before = 0;
  std::size_t buckets = 0;
  for (const Sample& sample : parsed.samples()) {
    if (sample.name != "sealane_commit_to_publish_seconds_bucket") continue;
    EXPECT_GE(sample.value, before);
    before = sample.value;
    ++buckets;
  }
  EXPECT_EQ(buckets, Histogram::kBounds.size() + 1);
  EXPECT_EQ(before, 5);
  const Labels base = {{"store", "default"}, {"route", "main"}};
  EXPECT_EQ(parsed.Value("sealane_commit_to_publish_seconds_count", base), 5);
  EXPECT_NEAR(*parsed.Value("sealane_commit_to_publish_seconds_sum", base), 1'000.7041, 1e-6);
}

}  // namespace
}  // namespace sealane
