// The only file that includes valijson, which takes long to compile and reports by exception; no exception leaves it.
#include <algorithm>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validation_visitor.hpp>

#include "sealane/json_schema.hpp"

#include "jsonschema/schema_files.hpp"

namespace sealane {
namespace {

using Json = nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;
using Patterns = std::unordered_map<std::string, std::regex>;

constexpr int kDepthMax = 64;
constexpr std::size_t kNameMax = 1024;
constexpr int kSchemaDepthMax = 64;
constexpr std::uint64_t kIntegerMax = std::numeric_limits<std::int64_t>::max();

/// Why a payload cannot be checked at all. Thrown through nlohmann's parser, caught in Check().
struct Uncheckable {
  std::string reason;
};

/// A schema ready for use. The patterns are compiled once, with the algorithm that needs no stack per character: the
/// usual one of libstdc++ recurses, so that a long text from outside would end the process.
struct Compiled {
  valijson::Schema schema;
  Patterns patterns;
};

bool HoldsSchemasByName(const std::string& keyword) {
  static const std::set<std::string> kKeywords = {"properties", "patternProperties", "definitions", "$defs",
                                                  "dependencies"};
  return kKeywords.contains(keyword);
}

bool HoldsValues(const std::string& keyword) {
  static const std::set<std::string> kKeywords = {"enum", "const", "default", "examples"};
  return kKeywords.contains(keyword);
}

std::regex CompilePattern(const std::string& pattern) {
  return std::regex(pattern, std::regex::ECMAScript | std::regex_constants::__polynomial);
}

// Takes out `format`, whose checks in valijson recurse per character, and collects the patterns.
void PrepareSchema(Json& schema, Patterns& patterns, int depth) {
  if (depth > kSchemaDepthMax) throw Uncheckable{"it is nested too deeply"};
  if (schema.is_array()) {
    for (Json& item : schema) PrepareSchema(item, patterns, depth + 1);
    return;
  }
  if (!schema.is_object()) return;
  if (const auto format = schema.find("format"); format != schema.end() && format->is_string()) schema.erase(format);
  for (auto& [keyword, value] : schema.items()) {
    if (keyword == "pattern" && value.is_string()) {
      const auto& pattern = value.get_ref<const std::string&>();
      patterns.emplace(pattern, CompilePattern(pattern));
    } else if (HoldsSchemasByName(keyword) && value.is_object()) {
      for (auto& [name, inner] : value.items()) {
        if (keyword == "patternProperties") CompilePattern(name);  // refuses a bad one now instead of at every event
        PrepareSchema(inner, patterns, depth + 1);
      }
    } else if (!HoldsValues(keyword)) {
      PrepareSchema(value, patterns, depth + 1);
    }
  }
}

/// Refuses while parsing what validation could not judge: see the class comment of JsonSchemas.
class ParseGuard {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      names_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      names_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (name.size() > kNameMax) throw Uncheckable{"a member name is longer than 1 KiB"};
      if (!names_.back().insert(name).second) throw Uncheckable{fmt::format("the member `{}` comes twice", name)};
    }
    // valijson would read a number above the signed range as a negative one.
    if (event == Json::parse_event_t::value && parsed.is_number_unsigned() &&
        parsed.get<std::uint64_t>() > kIntegerMax) {
      parsed = static_cast<double>(parsed.get<std::uint64_t>());
    }
    if (depth > kDepthMax) throw Uncheckable{"it is nested deeper than 64"};
    return true;
  }

 private:
  std::vector<std::set<std::string>> names_;
};

Json ParseGuarded(std::string_view payload) {
  ParseGuard guard;
  return Json::parse(payload, std::ref(guard));
}

Json ParseSchemaText(std::string_view text) {
  Json document = ParseGuarded(text);
  if (!document.is_object() && !document.is_boolean()) throw Uncheckable{"a schema is an object, true or false"};
  return document;
}

// valijson's path is "<root>", "[name]", "[3]"; ours is /name/3.
std::string PathOf(const std::vector<std::string>& context) {
  std::string path;
  for (std::string part : context) {
    if (part == "<root>") continue;
    if (part.starts_with('[') && part.ends_with(']')) part = part.substr(1, part.size() - 2);
    path += '/' + part;
  }
  return path.empty() ? "/" : path;
}

Error Mismatch(const Envelope& envelope, std::string_view path, std::string_view reason) {
  return Error(ErrorKind::kRejected, "schema_mismatch",
               fmt::format("the payload does not fit the schema of {} version {} at {}: {}", envelope.type,
                           envelope.schema_version, path, reason))
      .WithHint("change the payload, or raise schema_version and add its schema")
      .WithField("payload");
}

Error InvalidSchema(std::string_view type, std::int32_t version, std::string_view reason) {
  return Error(ErrorKind::kMisconfigured, "invalid_schema",
               fmt::format("the schema of {} version {} is not usable: {}", type, version, reason))
      .WithHint("it must be a JSON Schema, draft-07, without references to other documents")
      .WithField(std::string(type));
}

std::unique_ptr<const Compiled> Compile(std::string_view text) {
  Json document = ParseSchemaText(text);
  auto compiled = std::make_unique<Compiled>();
  PrepareSchema(document, compiled->patterns, 0);
  valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
  parser.populateSchema(Adapter(document), compiled->schema);
  return compiled;
}

Status Validate(const Compiled& compiled, const Envelope& envelope) {
  const Json payload = ParseGuarded(envelope.payload);
  valijson::ValidationResults results;
  // The visitor wants a cache it may write to. All patterns are in it already, so a copy is never written.
  Patterns patterns = compiled.patterns;
  const Adapter target(payload);
  valijson::ValidationVisitor<Adapter> visitor(target, {"<root>"}, true, &results, patterns);
  if (visitor.validateSchema(compiled.schema)) return Ok();
  // The deepest complaint says most: those above only say that something inside did not fit.
  const auto deepest = std::max_element(results.begin(), results.end(), [](const auto& a, const auto& b) {
    return a.context.size() < b.context.size();
  });
  if (deepest == results.end()) return Mismatch(envelope, "/", "it does not validate");
  return Mismatch(envelope, PathOf(deepest->context), deepest->description);
}

}  // namespace

class JsonSchemas::Impl {
 public:
  explicit Impl(JsonSchemasOptions options) : options_(options) {}

  Status Add(std::string_view type, std::int32_t version, std::string_view text) {
    if (type.empty() || version < 1) return InvalidSchema(type, version, "type and version must be given");
    const auto key = std::make_pair(std::string(type), version);
    if (schemas_.contains(key)) {
      return Error(ErrorKind::kMisconfigured, "doubled_schema",
                   fmt::format("there is already a schema of {} version {}", type, version));
    }
    try {
      schemas_.emplace(key, Compile(text));
      return Ok();
    } catch (const Uncheckable& problem) {
      return InvalidSchema(type, version, problem.reason);
    } catch (const std::exception& error) {
      return InvalidSchema(type, version, error.what());
    }
  }

  Status Check(const Envelope& envelope) const {
    const auto found = schemas_.find(std::make_pair(envelope.type, envelope.schema_version));
    if (found == schemas_.end()) {
      if (!options_.require_schema) return Ok();
      return Error(ErrorKind::kRejected, "schema_unknown",
                   fmt::format("there is no schema of {} version {}", envelope.type, envelope.schema_version))
          .WithHint("add its schema, or correct type and schema_version")
          .WithField("type");
    }
    try {
      return Validate(*found->second, envelope);
    } catch (const Uncheckable& problem) {
      return Mismatch(envelope, "/", problem.reason);
    } catch (const std::exception& error) {
      return Mismatch(envelope, "/", error.what());
    }
  }

  std::size_t size() const { return schemas_.size(); }

 private:
  JsonSchemasOptions options_;
  std::map<std::pair<std::string, std::int32_t>, std::unique_ptr<const Compiled>> schemas_;
};

JsonSchemas::JsonSchemas(JsonSchemasOptions options) : impl_(std::make_unique<Impl>(options)) {}
JsonSchemas::~JsonSchemas() = default;
JsonSchemas::JsonSchemas(JsonSchemas&&) noexcept = default;
JsonSchemas& JsonSchemas::operator=(JsonSchemas&&) noexcept = default;

Status JsonSchemas::Add(std::string_view type, std::int32_t version, std::string_view schema) {
  return impl_->Add(type, version, schema);
}

Status JsonSchemas::LoadDirectory(const std::string& path) {
  SEALANE_ASSIGN_OR_RETURN(const auto files, ReadSchemaFiles(path));
  for (const SchemaFile& file : files) {
    auto added = Add(file.type, file.version, file.text);
    if (!added) return std::move(added).error().WithContext(fmt::format("in {}", file.path));
  }
  return Ok();
}

std::size_t JsonSchemas::size() const {
  return impl_->size();
}

Status JsonSchemas::Check(const Envelope& envelope) const {
  return impl_->Check(envelope);
}

}  // namespace sealane
