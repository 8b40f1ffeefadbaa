#include "lab/kube/replay_match.hpp"

#include "base/strings.hpp"
#include "lab/kube/json.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

namespace rocca::lab::kube {

using text::Value;

namespace {

const char* pattern_of(const std::string& kind) {
  static const std::map<std::string, const char*> patterns{
      {"uid", "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"},
      {"rv", "[0-9]+"},
      {"time", R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"},
      {"microtime", R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)"},
      {"nanotime", R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}Z)"},
      {"continue", "[A-Za-z0-9_=-]+"},
      {"jwt", R"([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)"},
      {"pem", R"(-----BEGIN[\s\S]*)"},
      {"base64 pem", "[A-Za-z0-9+/=]+"},
      {"sha512", "[0-9A-F]{128}"},
      {"etag", "\\S+"},
      {"clusterIP", R"(\d+\.\d+\.\d+\.\d+)"},
      {"rand5", "[a-z0-9]{5}"},
      {"rs", "[a-z0-9.-]+"},
      {"pod", "[a-z0-9.-]+"},
      {"hash", "[a-z0-9]{5,10}"},
      {"hex", "[0-9a-f]+"},
  };
  const auto found = patterns.find(kind);
  return found == patterns.end() ? nullptr : found->second;
}

const std::regex& placeholder() {
  static const std::regex form("<([A-Za-z0-9]+(?: pem)?)(?::([0-9]+))?>");
  return form;
}

std::string quote(const std::string& literal) {
  static const std::regex special(R"([.^$|()\[\]{}*+?\\])");
  return std::regex_replace(literal, special, R"(\$&)");
}

std::string short_json(const Value& value) {
  std::string out = text::emit_json(value);
  if (out.size() > 300) out = out.substr(0, 300) + "…";
  return out;
}

Value without_repeats(const Value& list) {
  Value out = Value::list();
  for (const Value& item : list.items())
    if (std::find(out.items().begin(), out.items().end(), item) == out.items().end())
      out.append(item);
  return out;
}

/// Where a text begins to quote Go's internals (types, decoders, dumps of structs): from there on
/// it is not part of the contract (tests/reference/kube/README.md).
std::size_t internals_at(const std::string& text) {
  static const std::vector<std::string> marks{"json: cannot unmarshal",
                                              "&value.value",
                                              "unrecognized type:",
                                              "cannot restore ",
                                              "parsing time \"",
                                              "illegal base64 data",
                                              "converting (",
                                              "unable to convert ",
                                              "\n@@ ",
                                              "{\"labels\":",
                                              "error decoding from json",
                                              "quantities must match",
                                              "unable to parse quantity",
                                              "error decoding YAML: ",
                                              "json parse error: ",
                                              "invalid character ",
                                              "[{",
                                              "error parsing "};
  std::size_t first = std::string::npos;
  for (const std::string& mark : marks) first = std::min(first, text.find(mark));
  return first;
}

/// Random parts that the recorder left as they were.
std::string without_chance(const std::string& text) {
  static const std::regex volume("kube-api-access-[a-z0-9]{5}");
  return text.find("kube-api-access-") == std::string::npos
             ? text
             : std::regex_replace(text, volume, "kube-api-access-*");
}

}  // namespace

bool Bindings::bind(const std::string& name, const std::string& value) {
  if (loose_ && name.starts_with("<rv:")) {
    bound_[name] = value;  // for later requests; controllers write when they like
    return true;
  }
  const auto [place, fresh] = bound_.emplace(name, value);
  if (!fresh) return place->second == value;
  if (!name.starts_with("<rv:")) return true;
  // n keeps the order.
  const auto number = [](const std::string& text) { return std::stoull(text); };
  const auto index = number(name.substr(4));
  for (const auto& [other, bound] : bound_) {
    if (!other.starts_with("<rv:") || other == name) continue;
    const auto theirs = number(other.substr(4));
    const bool fits =
        theirs < index ? number(bound) <= number(value) : number(bound) >= number(value);
    if (!fits) return false;
  }
  return true;
}

bool Bindings::text(const std::string& recorded_text, const std::string& actual_text) {
  const std::string recorded = without_chance(recorded_text);
  const std::string actual = without_chance(actual_text);
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
    const auto bound = bound_.find(it->str());
    const bool token = (*it)[1].str() == "jwt";
    const bool open = loose_ && (*it)[1].str() == "rv";
    if ((*it)[2].matched && bound != bound_.end() && !open) {
      pattern += quote(bound->second);
    } else {
      pattern += fmt::format("({})", form);
      names.push_back((*it)[2].matched || token ? it->str() : "");
    }
  }
  pattern += quote(std::string(from, recorded.end()));
  std::smatch parts;
  if (!std::regex_match(actual, parts, std::regex(pattern))) return false;
  bool fits = true;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!names[i].empty()) fits = bind(names[i], parts[i + 1].str()) && fits;
  return fits;
}

std::string Bindings::fill(const std::string& recorded) const {
  if (recorded.find('<') == std::string::npos) return recorded;
  static const std::regex filler("^<([0-9]+) x (.)>$");
  std::smatch parts;
  if (std::regex_match(recorded, parts, filler))
    return std::string(std::stoul(parts[1].str()), parts[2].str()[0]);
  std::string out;
  auto from = recorded.begin();
  for (std::sregex_iterator it(recorded.begin(), recorded.end(), placeholder()), end; it != end;
       ++it) {
    out.append(from, recorded.begin() + it->position());
    const auto bound = bound_.find(it->str());
    const std::string kind = (*it)[1].str();
    if (bound != bound_.end())
      out += bound->second;
    else if (kind == "time")
      out += "2026-01-01T00:00:00Z";
    else if (kind == "base64 pem")
      out += "LS0tLS1CRUdJTg==";
    else if (kind == "uid")
      out += "00000000-0000-4000-8000-000000000001";
    else if (kind == "clusterIP")
      out += "10.96.99.99";
    else
      out += it->str();
    from = recorded.begin() + it->position() + it->length();
  }
  out.append(from, recorded.end());
  return out;
}

Value Bindings::fill(const Value& recorded) const {
  if (const std::string* text = recorded.as_string()) return Value::string(fill(*text));
  if (recorded.is_map()) {
    Value out = Value::map();
    for (const text::Entry& entry : recorded.entries()) out.set(fill(entry.key), fill(entry.value));
    return out;
  }
  if (recorded.is_list()) {
    Value out = Value::list();
    for (const Value& item : recorded.items()) out.append(fill(item));
    return out;
  }
  return recorded;
}

void Matcher::expect_text(const std::string& where, const std::string& recorded,
                          const std::string& actual) {
  // Which of several fields such a text names is chance.
  static const std::string typed = "failed to create typed patch object (";
  if (recorded.starts_with(typed) && actual.starts_with(typed) &&
      recorded.substr(0, recorded.find("): ")) == actual.substr(0, actual.find("): ")))
    return;
  const std::size_t recorded_end = internals_at(recorded);
  const std::size_t actual_end = internals_at(actual);
  if (recorded_end != std::string::npos &&
      bindings_.text(std::string(trim(recorded.substr(0, recorded_end))),
                     std::string(trim(actual.substr(0, actual_end)))))
    return;
  if (!bindings_.text(recorded, actual))
    complain(fmt::format("{}: recorded '{}', the lab says '{}'", where, recorded, actual));
}

bool Matcher::agrees(const Value& recorded, const Value& actual) {
  std::vector<std::string> kept = std::exchange(problems_, {});
  const Bindings before = bindings_;
  expect_value("", recorded, actual);
  const bool same = problems_.empty();
  if (!same) bindings_ = before;
  problems_ = std::move(kept);
  return same;
}

void Matcher::expect_set(const std::string& where, const Value& recorded_list,
                         const Value& actual_list) {
  if (!actual_list.is_list())
    return complain(fmt::format("{}: a list, the lab says {}", where, short_json(actual_list)));
  // How often the API server finds the same problem depends on the kind.
  const bool causes = where.ends_with(".causes");
  const Value recorded = causes ? without_repeats(recorded_list) : recorded_list;
  const Value actual = causes ? without_repeats(actual_list) : actual_list;
  std::set<std::size_t> used;
  for (const Value& item : recorded.items()) {
    bool found = false;
    for (std::size_t i = 0; !found && i < actual.items().size(); ++i)
      if (!used.contains(i) && agrees(item, actual.items()[i])) {
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
}

void Matcher::expect_value(const std::string& where, const Value& recorded, const Value& actual) {
  if (recorded.is_string()) {
    if (!actual.is_string())
      return complain(fmt::format("{}: recorded \"{}\", the lab says {}", where, recorded.text(),
                                  short_json(actual)));
    return expect_text(where, recorded.text(), actual.text());
  }
  if (recorded.is_map()) {
    if (!actual.is_map())
      return complain(fmt::format("{}: an object, the lab says {}", where, short_json(actual)));
    const bool owner = recorded.find("fieldsV1") != nullptr;
    // The order of several causes in the text is that of a Go map.
    const Value* causes = recorded.find({"details", "causes"});
    const bool many = causes != nullptr && causes->size() > 1;
    // The cause of a patch that cannot be decoded quotes the whole object.
    const Value* field = recorded.find("field");
    const bool patch = field != nullptr && field->is_string() && field->text() == "patch";
    const bool of_patch = causes != nullptr && causes->size() == 1 &&
                          text_at(causes->items()[0], {"field"}) == "patch";
    for (const text::Entry& entry : recorded.entries()) {
      if (owner && entry.key == "time") continue;
      if ((many || patch || of_patch) && entry.key == "message") continue;
      if (entry.key == "nodePort" || entry.key == "healthCheckNodePort") {
        // Drawn by lot, from the same range.
        const Value* mine = actual.find(entry.key);
        const auto drawn = [](const Value& port) {
          return port.as_int().value_or(0) >= 30000 && port.as_int().value_or(0) <= 32767;
        };
        if (mine != nullptr && drawn(entry.value) && drawn(*mine)) continue;
      }
      const Value* mine = actual.find(bindings_.fill(entry.key));
      if (mine == nullptr && entry.key.find('<') != std::string::npos)
        for (const text::Entry& other : actual.entries())
          if (bindings_.text(entry.key, other.key)) mine = &other.value;
      if (mine == nullptr && entry.key == "continue" && entry.value.text().empty()) continue;
      if (mine == nullptr)
        complain(fmt::format("{}.{}: recorded {}, the lab has no such key", where, entry.key,
                             short_json(entry.value)));
      else if (entry.key == "managedFields" || entry.key == "causes" ||
               entry.key == "resourceRules" || entry.key == "nonResourceRules")
        expect_set(where + "." + entry.key, entry.value, *mine);
      else
        expect_value(where + "." + entry.key, entry.value, *mine);
    }
    for (const text::Entry& entry : actual.entries()) {
      if (owner && entry.key == "time") continue;
      if (!owners_kept_ && entry.key == "managedFields") continue;
      // Lists of custom kinds have it or not, as they come from etcd or from the cache.
      if (entry.key == "continue" && entry.value.is_string() && entry.value.text().empty())
        continue;
      bool there = recorded.find(entry.key) != nullptr;
      if (!there)
        for (const text::Entry& other : recorded.entries())
          there = there || (other.key.find('<') != std::string::npos &&
                            bindings_.fill(other.key) == entry.key);
      if (!there)
        complain(fmt::format("{}.{}: the lab adds {}", where, entry.key, short_json(entry.value)));
    }
    return;
  }
  if (recorded.is_list()) {
    if (!actual.is_list())
      return complain(fmt::format("{}: a list, the lab says {}", where, short_json(actual)));
    if (recorded.size() != actual.size())
      return complain(fmt::format("{}: recorded {} items {}, the lab has {}: {}", where,
                                  recorded.size(), short_json(recorded), actual.size(),
                                  short_json(actual)));
    for (std::size_t i = 0; i < recorded.items().size(); ++i)
      expect_value(fmt::format("{}[{}]", where, i), recorded.items()[i], actual.items()[i]);
    return;
  }
  if (!(recorded == actual))
    complain(fmt::format("{}: recorded {}, the lab says {}", where, short_json(recorded),
                         short_json(actual)));
}

}  // namespace rocca::lab::kube
