#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "journal/journal.hpp"

namespace sealane {

/// How much one Read() brings at most. One message comes always, however large it is.
struct JournalReadLimits {
  std::size_t messages_max = 1'000;
  std::size_t bytes_max = std::size_t{4} << 20U;
};

/// A partition, and where a group stands in it.
struct JournalPlace {
  std::int64_t topic_id = 0;  ///< among the topics of this journal; another journal numbers its topics anew
  std::int64_t first_offset = 0;
  std::int64_t next_offset = 0;
  std::optional<std::int64_t> group = {};  ///< empty: the group has never joined
};

/// Looks into a journal. Reading disturbs no writer and needs no group.
///
/// A journal that was removed or replaced is kUnavailable (`journal_replaced`): open a new reader.
///
/// One owner, one thread; any number of readers in any number of processes.
class JournalReader {
 public:
  /// kMisconfigured (`journal_missing`) when nothing was ever published there.
  static Result<std::unique_ptr<JournalReader>> Open(const JournalOptions& options, Clock& clock);
  ~JournalReader();

  /// The journal's identity: drawn when it was made, the same in every copy of the file.
  const std::string& Birth() const;
  /// Names, in alphabetical order.
  Result<std::vector<std::string>> Topics();
  /// Empty when there is no such topic.
  Result<std::vector<JournalPartition>> Partitions(std::string_view topic);
  /// Messages of one partition in the order of their offsets, from `offset` on. The first may have a higher one, when
  /// retention has removed what was before it. Empty at the end, and when there is no such topic or partition.
  Result<std::vector<JournalMessage>> Read(std::string_view topic, std::int32_t partition, std::int64_t offset,
                                           const JournalReadLimits& limits = {});
  /// Empty when there is no such topic or partition.
  Result<std::optional<JournalPlace>> Find(std::string_view group, std::string_view topic, std::int32_t partition);
  /// The offset of the first message published at that time or later; empty when there is none. Looks at all messages
  /// before it.
  Result<std::optional<std::int64_t>> OffsetAt(std::string_view topic, std::int32_t partition, Timestamp time);
  /// Messages of the topic that the group has not acknowledged, those that retention has removed not counted.
  Result<std::int64_t> Unread(std::string_view group, std::string_view topic);
  /// Waits until somebody has written to the journal since this reader last looked here; false when nobody did, or a
  /// stop is requested. Looks every millisecond after a change, and more and more seldom while nothing happens.
  Result<bool> AwaitChange(std::chrono::milliseconds wait, std::stop_token stop);

 private:
  class Impl;
  explicit JournalReader(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace sealane
