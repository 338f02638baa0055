// Protects the stored format of the uniqueness records: the same in every release and in SQL.
// The expected bytes were computed with another implementation of SHA-256.

#include "core/fingerprint.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "base/hex.hpp"

namespace sealane {
namespace {

Envelope VersionOf(std::string tenant, std::string aggregate_type, std::string aggregate_id, std::int64_t version,
                   std::string type) {
  Envelope envelope;
  envelope.tenant = std::move(tenant);
  envelope.aggregate = {.type = std::move(aggregate_type), .id = std::move(aggregate_id), .version = version};
  envelope.type = std::move(type);
  return envelope;
}

TEST(Fingerprint, OfIdMatchesFixedVector) {
  const auto id = EventId::Parse("018F4E2A-1B2C-7D3E-8F40-5A6B7C8D9E0F");  // lower case is what counts
  ASSERT_TRUE(id);
  EXPECT_EQ(ToHex(FingerprintOfId(*id)), "37418d3dc5acf12b2ef9c028dbfa32ad");
}

TEST(Fingerprint, OfVersionMatchesFixedVectors) {
  EXPECT_EQ(ToHex(FingerprintOfVersion(VersionOf("t1", "order", "o-1", 3, "OrderPlaced"))),
            "f6709985a3f7ebc84edb5223b81c8ba8");
  EXPECT_EQ(ToHex(FingerprintOfVersion(
                VersionOf("", "order", "o-1", std::numeric_limits<std::int64_t>::max(), "OrderPlaced"))),
            "045a270713ef291eef986c33cddbf9a3");
}

TEST(Fingerprint, OfDedupKeyMatchesFixedVectors) {
  EXPECT_EQ(ToHex(FingerprintOfDedupKey("t1", "import-2024-05-06")), "8cbdf72d21184c236fcbca820ecfd776");
  EXPECT_EQ(ToHex(FingerprintOfDedupKey("", "Gr\xc3\xbc\xc3\x9f\x65")), "07cfc58687e2d2fc9b0b7db77310512f");
}

TEST(Fingerprint, TellsWhereOnePartEnds) {
  EXPECT_NE(FingerprintOfDedupKey("ab", "c"), FingerprintOfDedupKey("a", "bc"));
  EXPECT_NE(FingerprintOfDedupKey("", "ab"), FingerprintOfDedupKey("ab", ""));
  EXPECT_NE(FingerprintOfVersion(VersionOf("t", "a", "bc", 1, "X")),
            FingerprintOfVersion(VersionOf("t", "ab", "c", 1, "X")));
}

TEST(FingerprintDeathTest, NeedsAVersion) {
  EXPECT_DEATH(FingerprintOfVersion(Envelope{}), "only a given version can be asked to be unique");
}

}  // namespace
}  // namespace sealane
