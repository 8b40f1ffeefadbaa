#include "lab/pve/replay_match.hpp"

#include "base/strings.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

namespace rocca::lab::pve {

namespace {

/// What may stand for a placeholder, as a pattern; nothing: it is no placeholder but text with
/// angle brackets.
const char* pattern_of(const std::string& kind) {
  static const std::map<std::string, const char*> patterns{
      {"PID", "[0-9A-F]{8}|[0-9]+"},
      {"PSTART", "[0-9A-F]{8,9}"},
      {"TIME", "[0-9A-F]{8}"},
      {"UUID", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
      {"MAC", "[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}"},
      {"DIGEST", "[0-9a-f]{40}"},
      {"EPOCH", "[0-9]{9,11}"},
      {"CSRF", "[0-9A-F]{8}:\\S+"},
      {"HEX8", "[0-9A-F]{8}"},
      {"BASE64", "[A-Za-z0-9+/=]+"},
      {"HEX32", "[0-9a-fA-F]{32}"},
      {"HEX", "[0-9a-fA-F]+"},
      {"FINGERPRINT", "(?:[0-9A-F]{2}:){31}[0-9A-F]{2}"},
      {"PEM", "-----BEGIN CERTIFICATE-----[\\s\\S]*"},
      {"TIMESTAMP", ".*"},
      {"SPEED", ".*"},
      {"TMPDIR", "\\S*"},
      {"LINK-LOCAL", "fe80:[0-9a-f:]+"},
      {"CRYPT-HASH", "\\$\\S+"},
      {"string", "[\\s\\S]*"},
      {"secret", "\\S+"},
      {"int", "-?[0-9]+"},
      {"number", "-?[0-9.e+-]+"},
      {"numeric-string", "-?[0-9.]+"},
  };
  const auto found = patterns.find(kind);
  return found == patterns.end() ? nullptr : found->second;
}

std::string quote(const std::string& literal) {
  static const std::regex special(R"([.^$|()\[\]{}*+?\\])");
  return std::regex_replace(literal, special, R"(\$&)");
}

const std::regex& placeholder() {
  static const std::regex form("<([A-Za-z0-9-]+)(?::([0-9]+))?>");
  return form;
}

bool is_object_list(const text::Value& value) {
  return value.is_list();
}

std::string short_json(const text::Value& value) {
  std::string json = text::emit_json(value);
  if (json.size() > 400) json = json.substr(0, 400) + "…";
  return json;
}

}  // namespace

namespace {

/// Two tasks begun in one second share a <TIME:n> by chance only: in a UPID the PID's number names
/// all three parts.
std::string by_process(const std::string& recorded) {
  if (recorded.find("<PSTART:") == std::string::npos) return recorded;
  static const std::regex upid("<PID:([0-9]+)>(:|%3A)<PSTART:[0-9]+>(:|%3A)<TIME:[0-9]+>");
  return std::regex_replace(recorded, upid, "<PID:$1>$2<PSTART:$1>$3<TIME:$1>");
}

/// The keys of a property string are checked in the order of a Perl hash.
std::string sorted_problems(const std::string& text) {
  const std::string head = "invalid format - format error\n";
  if (!text.starts_with(head)) return text;
  std::vector<std::string> lines = split(text.substr(head.size()), '\n');
  std::sort(lines.begin(), lines.end());
  return head + join(lines, "\n");
}

/// Proxmox prints a set of content types in the order of a Perl hash.
std::string sorted_list(const std::string& text) {
  std::vector<std::string> parts = split(text, ',');
  std::sort(parts.begin(), parts.end());
  return join(parts, ",");
}

}  // namespace

std::string Matcher::fill(const std::string& text, const Bindings& bindings) {
  const std::string recorded = by_process(text);
  std::string out;
  auto from = recorded.begin();
  for (std::sregex_iterator it(recorded.begin(), recorded.end(), placeholder()), end; it != end;
       ++it) {
    out.append(from, recorded.begin() + it->position());
    const auto bound = bindings.find(it->str());
    out += bound == bindings.end() ? it->str() : bound->second;
    from = recorded.begin() + it->position() + it->length();
  }
  out.append(from, recorded.end());
  return out;
}

bool Matcher::text(const std::string& wanted, const std::string& actual) {
  const std::string recorded = by_process(wanted);
  if (recorded.find('<') == std::string::npos) return recorded == actual;
  std::string pattern;
  std::vector<std::string> names;
  auto from = recorded.begin();
  for (std::sregex_iterator it(recorded.begin(), recorded.end(), placeholder()), end; it != end;
       ++it) {
    const char* form = pattern_of((*it)[1].str());
    if (form == nullptr) continue;
    pattern += quote(std::string(from, recorded.begin() + it->position()));
    from = recorded.begin() + it->position() + it->length();
    const auto bound = bindings_.find(it->str());
    if ((*it)[2].matched && bound != bindings_.end()) {
      pattern += quote(bound->second);
    } else {
      pattern += fmt::format("({})", form);
      names.push_back((*it)[2].matched ? it->str() : "");
    }
  }
  pattern += quote(std::string(from, recorded.end()));
  std::smatch parts;
  if (!std::regex_match(actual, parts, std::regex(pattern))) return false;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!names[i].empty()) bindings_.emplace(names[i], parts[i + 1].str());
  return true;
}

void Matcher::expect_text(const std::string& where, const std::string& recorded,
                          const std::string& actual) {
  if (!text(recorded, actual) && !text(sorted_problems(recorded), sorted_problems(actual)))
    complain(fmt::format("{}: recorded '{}', the lab says '{}'", where, recorded, actual));
}

bool Matcher::value(const text::Value& recorded, const text::Value& actual) {
  std::vector<std::string> kept = std::exchange(problems_, {});
  const Bindings before = bindings_;
  expect_value("", recorded, actual);
  const bool same = problems_.empty();
  if (!same) bindings_ = before;
  problems_ = std::move(kept);
  return same;
}

void Matcher::expect_value(const std::string& where, const text::Value& recorded,
                           const text::Value& actual) {
  using text::Kind;
  if (const std::string* words = recorded.as_string()) {
    if (*words == "<int>") {
      if (actual.kind() != Kind::Int)
        complain(fmt::format("{}: an integer, the lab says {}", where, short_json(actual)));
      return;
    }
    if (*words == "<number>") {
      if (actual.kind() != Kind::Int && actual.kind() != Kind::Float)
        complain(fmt::format("{}: a number, the lab says {}", where, short_json(actual)));
      return;
    }
    if (!actual.is_string())
      return complain(
          fmt::format("{}: recorded \"{}\", the lab says {}", where, *words, short_json(actual)));
    if (where.ends_with(".content"))
      return expect_text(where, sorted_list(*words), sorted_list(actual.text()));
    return expect_text(where, *words, actual.text());
  }
  if (recorded.is_map()) {
    if (!actual.is_map())
      return complain(fmt::format("{}: an object, the lab says {}", where, short_json(actual)));
    for (const text::Entry& entry : recorded.entries()) {
      const text::Value* mine = actual.find(entry.key);
      if (mine == nullptr)
        complain(fmt::format("{}.{}: recorded {}, the lab has no such key", where, entry.key,
                             short_json(entry.value)));
      else
        expect_value(where + "." + entry.key, entry.value, *mine);
    }
    for (const text::Entry& entry : actual.entries())
      if (recorded.find(entry.key) == nullptr)
        complain(fmt::format("{}.{}: the lab adds {}", where, entry.key, short_json(entry.value)));
    return;
  }
  if (is_object_list(recorded)) {
    if (!actual.is_list())
      return complain(fmt::format("{}: a list, the lab says {}", where, short_json(actual)));
    std::set<std::size_t> used;
    for (const text::Value& item : recorded.items()) {
      bool found = false;
      for (std::size_t i = 0; !found && i < actual.items().size(); ++i)
        if (!used.contains(i) && value(item, actual.items()[i])) {
          used.insert(i);
          found = true;
        }
      if (!found)
        complain(
            fmt::format("{}[]: recorded {}, the lab has no such element", where, short_json(item)));
    }
    for (std::size_t i = 0; i < actual.items().size(); ++i)
      if (!used.contains(i))
        complain(fmt::format("{}[]: the lab adds {}", where, short_json(actual.items()[i])));
    return;
  }
  if (recorded.kind() != actual.kind() || recorded.text() != actual.text())
    complain(fmt::format("{}: recorded {}, the lab says {}", where, short_json(recorded),
                         short_json(actual)));
}

}  // namespace rocca::lab::pve
