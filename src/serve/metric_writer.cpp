#include "serve/metric_writer.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.hpp"
#include "serve/metrics.hpp"

namespace sealane {
namespace {

// As much of a label's value as is shown. The cut falls between characters.
std::string Shortened(std::string_view value) {
  std::string text = IsUtf8(value) ? std::string(value) : EscapeForTerminal(value);
  if (text.size() <= kMetricLabelMax) return text;
  std::size_t end = kMetricLabelMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  text.resize(end);
  return text;
}

std::string Escaped(std::string_view value) {
  std::string out;
  for (const char c : Shortened(value)) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string MetricNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}
std::string MetricNumber(std::uint64_t value) {
  return fmt::format("{}", value);
}
std::string MetricNumber(std::int64_t value) {
  return fmt::format("{}", value);
}

MetricLabels With(MetricLabels labels, std::string_view name, std::string_view value) {
  labels.emplace_back(name, value);
  return labels;
}

std::map<std::string, std::uint64_t> BoundedSeries(const std::map<std::string, std::uint64_t>& counts,
                                                   std::size_t max, std::uint64_t total) {
  std::vector<std::pair<std::string, std::uint64_t>> largest;
  std::uint64_t counted = 0;
  for (const auto& [name, count] : counts) {
    counted += count;
    if (name != "other") largest.emplace_back(name, count);
  }
  // By count, then by name, so that a tie does not flap between two scrapes.
  std::sort(largest.begin(), largest.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (largest.size() > max) largest.resize(max);
  std::map<std::string, std::uint64_t> bounded;
  std::uint64_t shown = 0;
  for (const auto& [name, count] : largest) {
    bounded[Shortened(name)] += count;
    shown += count;
  }
  const std::uint64_t rest = std::max(counted, total) - shown;
  if (rest > 0) bounded["other"] += rest;
  return bounded;
}

void MetricWriter::Family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP sealane_{} {}\n# TYPE sealane_{} {}\n", name, help, name, type);
}

void MetricWriter::Sample(const MetricLabels& labels, std::string_view value, std::string_view suffix) {
  text_ += fmt::format("sealane_{}{}", name_, suffix);
  char before = '{';
  for (const auto& [label, content] : labels) {
    text_ += fmt::format("{}{}=\"{}\"", before, label, Escaped(content));
    before = ',';
  }
  if (before == ',') text_ += '}';
  text_ += fmt::format(" {}\n", value);
}

void MetricWriter::Distribution(const MetricLabels& labels, const Histogram& histogram) {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i) {
    below += histogram.counts[i];
    Sample(With(labels, "le", MetricNumber(Histogram::kBounds[i])), MetricNumber(below), "_bucket");
  }
  // The total is the last bucket, not the counter beside it: the two must agree in every scrape.
  below += histogram.counts.back();
  Sample(With(labels, "le", "+Inf"), MetricNumber(below), "_bucket");
  Sample(labels, MetricNumber(histogram.sum), "_sum");
  Sample(labels, MetricNumber(below), "_count");
}

}  // namespace sealane
