// Protects the wire forms: consumers out there read exactly these bytes. Each profile of each sample event is
// compared with a file in tests/golden/wire; run with SEALANE_UPDATE_GOLDEN=1 to write the files after an intended
// change, and read the difference before committing it.

#include "core/wire.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/sha256.hpp"
#include "base/time_text.hpp"

namespace sealane {
namespace {

constexpr WireProfile kAllProfiles[] = {WireProfile::kEnvelope, WireProfile::kCloudEvents,
                                        WireProfile::kCloudEventsStructured, WireProfile::kDebezium,
                                        WireProfile::kRaw};

Envelope MinimalEvent() {
  Envelope envelope;
  envelope.id = *EventId::Parse("018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f");
  envelope.type = "OrderPlaced";
  envelope.topic = "orders";
  envelope.key = "o-1";
  envelope.content_type = "application/json";
  envelope.occurred_at = *ParseRfc3339("2024-05-06T07:08:09.123456Z");
  envelope.payload = R"({"id":42})";
  envelope.payload_hash = Sha256(envelope.payload);
  return envelope;
}

Envelope FullEvent() {
  Envelope envelope = MinimalEvent();
  envelope.schema_version = 3;
  envelope.tenant = "t1";
  envelope.key = "customer/7";
  envelope.aggregate = {.type = "order", .id = "o-1", .version = 9'007'199'254'740'993};
  envelope.correlation_id = "corr-1";
  envelope.causation_id = "018f4e2a-1b2c-7d3e-8f40-000000000001";
  envelope.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  envelope.tracestate = "vendor=1";
  envelope.producer = "web shop";
  envelope.schema_id = "https://schemas.example/order/3";
  envelope.headers = {{"region", "eu"}, {"note", "Gr\xc3\xbc\xc3\x9f\x65"}};
  return envelope;
}

Envelope BinaryEvent() {
  Envelope envelope = MinimalEvent();
  envelope.content_type = "application/x-protobuf";
  envelope.schema_id = "17";
  envelope.payload = std::string(
      "\x08\x2a\x00\xff\x12\x03"
      "abc",
      9);
  envelope.payload_hash = Sha256(envelope.payload);
  return envelope;
}

Envelope HostileEvent() {
  Envelope envelope = MinimalEvent();
  envelope.key = "a\"b\\c\n\x1b[2J";
  envelope.headers = {{"event-id", "forged"}, {"ce_id", "forged"}, {"ID", "forged"}, {"own", "kept"}};
  envelope.payload = " {\"b\":1,\"a\":2,\"a\":123456789012345678901234567890,\n\t\"s\":\"\\ud800\"} ";
  envelope.payload_hash = Sha256(envelope.payload);
  return envelope;
}

Envelope DelayedCommand() {
  Envelope envelope = MinimalEvent();
  envelope.kind = EventKind::kCommand;
  envelope.type = "SendApprovalEmail";
  envelope.topic = "mail";
  envelope.producer = "shop";
  envelope.available_at = *ParseRfc3339("2024-05-07T00:00:00Z");
  return envelope;
}

// Printable ASCII as it is; everything else, the backslash and a space at the end as an escape: one dump stands for
// one message, and no editor can change it unseen.
std::string Shown(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const bool last_space = byte == ' ' && i + 1 == bytes.size();
    if (byte == '\\') {
      text += "\\\\";
    } else if (byte == '\n') {
      text += "\\n";
    } else if (byte < 0x20 || byte >= 0x7f || last_space) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text.push_back(bytes[i]);
    }
  }
  return text;
}

std::string Dump(const WireMessage& message) {
  std::string text = fmt::format("key: {}\n", Shown(message.key));
  for (const Header& header : message.headers) {
    text += fmt::format("header: {}: {}\n", Shown(header.name), Shown(header.value));
  }
  return text + fmt::format("value: {}\n", Shown(message.value));
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The lines that only one side has, in reading order.
std::string Difference(const std::string& golden, const std::string& actual) {
  const auto expected = Lines(golden);
  const auto found = Lines(actual);
  std::string text;
  for (const std::string& line : expected) {
    if (std::find(found.begin(), found.end(), line) == found.end()) text += "  - " + line + "\n";
  }
  for (const std::string& line : found) {
    if (std::find(expected.begin(), expected.end(), line) == expected.end()) text += "  + " + line + "\n";
  }
  return text.empty() ? "  the same lines in another order:\n" + actual : text;
}

void CompareWithGolden(const std::string& name, const std::string& actual) {
  const auto path = std::filesystem::path(SEALANE_TEST_SOURCE_DIR) / "tests/golden/wire" / (name + ".txt");
  if (std::getenv("SEALANE_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << actual;
  }
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in) << "no golden file " << path << "; write it with SEALANE_UPDATE_GOLDEN=1";
  const std::string golden{std::istreambuf_iterator<char>(in), {}};
  EXPECT_TRUE(golden == actual) << name << " differs from its golden file (- golden, + now):\n"
                                << Difference(golden, actual);
}

void CompareAllProfiles(const std::string& event, const Envelope& envelope) {
  for (const WireProfile profile : kAllProfiles) {
    CompareWithGolden(fmt::format("{}.{}", event, ToString(profile)), Dump(ToWire(envelope, profile)));
  }
}

std::vector<std::string> Values(const WireMessage& message, std::string_view name) {
  std::vector<std::string> values;
  for (const Header& header : message.headers) {
    if (header.name == name) values.push_back(header.value);
  }
  return values;
}

TEST(WireGolden, MinimalEvent) {
  CompareAllProfiles("minimal", MinimalEvent());
}
TEST(WireGolden, FullEvent) {
  CompareAllProfiles("full", FullEvent());
}
TEST(WireGolden, BinaryPayload) {
  CompareAllProfiles("binary", BinaryEvent());
}
TEST(WireGolden, HostileEvent) {
  CompareAllProfiles("hostile", HostileEvent());
}
TEST(WireGolden, DelayedCommand) {
  CompareAllProfiles("delayed-command", DelayedCommand());
}

TEST(WireProfile, NamesRoundTrip) {
  for (const WireProfile profile : kAllProfiles) EXPECT_EQ(ParseWireProfile(ToString(profile)), profile);
  EXPECT_FALSE(ParseWireProfile("cloudevent"));
  EXPECT_FALSE(ParseWireProfile(""));
}

TEST(Wire, CarriesPayloadBytesExactlyInEveryProfile) {
  for (const Envelope& envelope : {FullEvent(), BinaryEvent(), HostileEvent()}) {
    for (const WireProfile profile : {WireProfile::kCloudEvents, WireProfile::kDebezium, WireProfile::kRaw}) {
      EXPECT_EQ(ToWire(envelope, profile).value, envelope.payload);
    }
    const auto read = EnvelopeFromJson(ToWire(envelope, WireProfile::kEnvelope).value);
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, envelope);
  }
  const std::string structured = ToWire(HostileEvent(), WireProfile::kCloudEventsStructured).value;
  EXPECT_TRUE(structured.ends_with("\"data\":" + HostileEvent().payload + "}")) << structured;
}

TEST(Wire, WritesEachOfItsHeadersOnce) {
  for (const Envelope& envelope : {FullEvent(), HostileEvent()}) {
    for (const WireProfile profile : kAllProfiles) {
      const WireMessage message = ToWire(envelope, profile);
      for (const Header& header : message.headers) {
        EXPECT_EQ(Values(message, header.name).size(), 1U) << header.name << " in " << ToString(profile);
      }
    }
  }
}

TEST(Wire, NeverLetsOwnHeadersStandForOurs) {
  const std::string id = HostileEvent().id.ToString();
  EXPECT_EQ(Values(ToWire(HostileEvent(), WireProfile::kEnvelope), "event-id"), std::vector<std::string>{id});
  EXPECT_EQ(Values(ToWire(HostileEvent(), WireProfile::kCloudEvents), "ce_id"), std::vector<std::string>{id});
  EXPECT_EQ(Values(ToWire(HostileEvent(), WireProfile::kDebezium), "id"), std::vector<std::string>{id});
  for (const WireProfile profile : kAllProfiles) {
    const WireMessage message = ToWire(HostileEvent(), profile);
    EXPECT_EQ(Values(message, "own-event-id"), std::vector<std::string>{"forged"}) << ToString(profile);
    EXPECT_EQ(Values(message, "own"), std::vector<std::string>{"kept"}) << ToString(profile);
  }
}

TEST(Wire, ReservesWhatItWrites) {
  for (const WireProfile profile : kAllProfiles) {
    Envelope envelope = FullEvent();
    envelope.headers.clear();
    for (const Header& header : ToWire(envelope, profile).headers)
      EXPECT_TRUE(IsReservedHeader(header.name)) << header.name;
  }
  for (const auto* name : {"CE_ID", "ce-type", "Content-Type", "cloudEvents:id", "sealane-replay", "EventType"}) {
    EXPECT_TRUE(IsReservedHeader(name)) << name;
  }
  for (const auto* name : {"region", "celsius", "identity", "x-event-id", ""})
    EXPECT_FALSE(IsReservedHeader(name)) << name;
}

TEST(CloudEvents, AlwaysHasATime) {
  EXPECT_EQ(Values(ToWire(MinimalEvent(), WireProfile::kCloudEvents), "ce_time").size(), 1U);
}

TEST(CloudEvents, TakesTheSourceFromTheOptions) {
  const WireOptions options{.source = "https://shop.example/orders"};
  EXPECT_EQ(Values(ToWire(FullEvent(), WireProfile::kCloudEvents, options), "ce_source"),
            std::vector<std::string>{"https://shop.example/orders"});
  EXPECT_EQ(Values(ToWire(FullEvent(), WireProfile::kCloudEvents), "ce_source"),
            std::vector<std::string>{"/sealane/web%20shop"});
  EXPECT_EQ(Values(ToWire(MinimalEvent(), WireProfile::kCloudEvents), "ce_source"),
            std::vector<std::string>{"/sealane/unknown"});
}

TEST(CloudEvents, CallsOnlyAbsoluteUrisADataSchema) {
  Envelope envelope = MinimalEvent();
  for (const auto* uri : {"https://a.example/x", "urn:schema:1", "file:///x"}) {
    envelope.schema_id = uri;
    EXPECT_EQ(Values(ToWire(envelope, WireProfile::kCloudEvents), "ce_dataschema"), std::vector<std::string>{uri});
  }
  for (const auto* other : {"17", "order/3", "a b:c", ":x", "x:", "1a:b", "http://a b"}) {
    envelope.schema_id = other;
    EXPECT_EQ(Values(ToWire(envelope, WireProfile::kCloudEvents), "ce_schemaid"), std::vector<std::string>{other});
    EXPECT_TRUE(Values(ToWire(envelope, WireProfile::kCloudEvents), "ce_dataschema").empty());
  }
}

TEST(CloudEvents, NamesAttributesInLowerCaseLettersAndDigits) {
  for (const Header& header : ToWire(FullEvent(), WireProfile::kCloudEvents).headers) {
    if (!header.name.starts_with("ce_")) continue;
    for (const char c : header.name.substr(3))
      EXPECT_TRUE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) << header.name;
  }
}

TEST(CloudEvents, StructuredIsValidJsonForOtherReaders) {
  const auto json = nlohmann::json::parse(ToWire(FullEvent(), WireProfile::kCloudEventsStructured).value);
  EXPECT_EQ(json["specversion"], "1.0");
  EXPECT_EQ(json["data"]["id"], 42);
  EXPECT_TRUE(json["schemaversion"].is_number_integer());
  EXPECT_EQ(json["aggregateversion"], "9007199254740993");
  const auto binary = nlohmann::json::parse(ToWire(BinaryEvent(), WireProfile::kCloudEventsStructured).value);
  EXPECT_TRUE(binary.contains("data_base64"));
  EXPECT_FALSE(binary.contains("data"));
}

TEST(Debezium, KeysByAggregateAndFallsBackToTheOrderingKey) {
  EXPECT_EQ(ToWire(FullEvent(), WireProfile::kDebezium).key, "o-1");
  Envelope envelope = FullEvent();
  envelope.aggregate = {};
  EXPECT_EQ(ToWire(envelope, WireProfile::kDebezium).key, "customer/7");
}

}  // namespace
}  // namespace sealane
