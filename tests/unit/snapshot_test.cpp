// Protects how positions in PostgreSQL are read, and which transactions a window looks at.

#include "postgres/snapshot.hpp"

#include <gtest/gtest.h>

#include "relay/topic_template.hpp"

namespace sealane {
namespace {

using postgres::Snapshot;
using postgres::StretchOf;

Snapshot Of(std::string_view text) {
  return ValueOrThrow(Snapshot::Parse(text));
}

TEST(Snapshot, ReadsWhatItWrites) {
  for (const char* text : {"1:1:/0/0/0", "10:20:10,12,19/345/400/1790000000674015", "7:7:/1/9223372036854775807/5"}) {
    EXPECT_EQ(Of(text).Text(), text);
  }
  EXPECT_EQ(Of("10:20:10,12").Server(), "10:20:10,12");
}

TEST(Snapshot, RefusesAnythingElse) {
  for (const char* text :
       {"", "1", "1:2", "a:b:", "1:2:3;4", "1:2:/x/1", "1:2:/1", "1:2:/1/2", "1:2:/1/2/3/4", "1:2:/1/2/3 "}) {
    const auto parsed = Snapshot::Parse(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code(), "bad_position");
  }
}

TEST(Snapshot, SeesWhatWasCommittedThen) {
  const Snapshot snapshot = Of("10:20:10,15");
  EXPECT_TRUE(snapshot.Sees(9));
  EXPECT_FALSE(snapshot.Sees(10));
  EXPECT_TRUE(snapshot.Sees(11));
  EXPECT_FALSE(snapshot.Sees(15));
  EXPECT_FALSE(snapshot.Sees(20));
}

TEST(Snapshot, CoversWhatItSeesAllOf) {
  const Snapshot late = Of("12:20:12,15");
  EXPECT_TRUE(late.Covers(late));
  EXPECT_TRUE(late.Covers(Of("10:18:10,12,15,17")));
  EXPECT_TRUE(late.Covers(Of("12:12:")));
  EXPECT_FALSE(late.Covers(Of("15:18:15"))) << "sees 12";
  EXPECT_FALSE(late.Covers(Of("12:21:12,15"))) << "sees 20";
}

TEST(Stretch, HoldsEveryTransactionThatBecameVisible) {
  const Snapshot from = Of("10:5000:10,12,4990");
  const Snapshot to = Of("12:6000:12,5500");
  const postgres::Stretch stretch = StretchOf(from, to);
  const auto covered = [&](std::uint64_t xid) {
    return (xid >= stretch.first && xid < stretch.end) ||
           std::find(stretch.old.begin(), stretch.old.end(), xid) != stretch.old.end();
  };
  for (std::uint64_t xid = 1; xid < 7'000; ++xid) {
    EXPECT_TRUE(covered(xid) || !to.Sees(xid) || from.Sees(xid)) << xid;
  }
  // One that was open for long is looked up alone; one that was open a moment ago belongs to the range.
  EXPECT_EQ(stretch.old, std::vector<std::uint64_t>{10});
  EXPECT_EQ(stretch.first, 4990U);
}

TEST(TopicTemplate, FillsInFieldsAndKeepsTopicsValid) {
  EnvelopeView event;
  event.topic = "orders";
  event.aggregate_type = "Order Line/1";
  EXPECT_EQ(ValueOrThrow(TopicTemplate::Parse("")).Apply(event), "orders");
  EXPECT_EQ(ValueOrThrow(TopicTemplate::Parse("${aggregate_type}.${kind}s")).Apply(event), "Order_Line_1.events");
}

TEST(TopicTemplate, SaysWhatIsWrong) {
  for (const char* pattern : {"${nothing}", "${topic", "a b", "x/${topic}"}) {
    const auto parsed = TopicTemplate::Parse(pattern);
    ASSERT_FALSE(parsed.has_value()) << pattern;
    EXPECT_EQ(parsed.error().code(), "bad_topic_template");
    EXPECT_FALSE(parsed.error().hint().empty());
  }
}

}  // namespace
}  // namespace sealane
