#include "lab/pve/schema/schema.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/pve/failure.hpp"
#include "lab/pve/schema/tables.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>

namespace rocca::lab::pve {

const Parameter* Format::default_key() const {
  for (const auto& [key, parameter] : keys)
    if (parameter.default_key) return &parameter;
  return nullptr;
}

const std::string* Parameters::find(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

std::string Parameters::text(std::string_view name, std::string_view fallback) const {
  const std::string* value = find(name);
  return value == nullptr ? std::string(fallback) : *value;
}

std::int64_t Parameters::integer(std::string_view name, std::int64_t fallback) const {
  const std::string* value = find(name);
  return value == nullptr ? fallback : parse_int(*value).value_or(fallback);
}

bool Parameters::flag(std::string_view name, bool fallback) const {
  const std::string* value = find(name);
  return value == nullptr ? fallback : *value == "1";
}

const std::vector<std::string>& Parameters::list(std::string_view name) const {
  static const std::vector<std::string> none;
  const auto found = lists_.find(name);
  return found == lists_.end() ? none : found->second;
}

std::vector<std::string> Parameters::split(std::string_view name) const {
  const std::string* value = find(name);
  return value == nullptr ? std::vector<std::string>{} : split_list(*value);
}

void Parameters::set_list(std::string name, std::vector<std::string> values) {
  lists_.insert_or_assign(std::move(name), std::move(values));
}

void Parameters::erase(std::string_view name) {
  if (const auto found = values_.find(name); found != values_.end()) values_.erase(found);
}

std::string family(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') --end;
  return end == name.size() || end == 0 ? std::string(name)
                                        : std::string(name.substr(0, end)) + "[n]";
}

std::size_t family_size(std::string_view group) {
  static const std::map<std::string, std::size_t, std::less<>> sizes{
      {"hostpci[n]", 16}, {"ide[n]", 4},      {"ipconfig[n]", 32}, {"net[n]", 32},
      {"numa[n]", 8},     {"parallel[n]", 3}, {"sata[n]", 6},      {"scsi[n]", 31},
      {"serial[n]", 4},   {"unused[n]", 256}, {"usb[n]", 14},      {"virtio[n]", 16},
      {"virtiofs[n]", 10}};
  const auto found = sizes.find(group);
  return found == sizes.end() ? 0 : found->second;
}

namespace {

/// Is it a member of its family: net31 is, net32 and net01 are not.
bool is_member(std::string_view name) {
  const std::string_view digits = name.substr(name.find_last_not_of("0123456789") + 1);
  const auto index = parse_uint(digits);
  return index && *index < family_size(family(name)) && (digits == "0" || digits[0] != '0');
}

}  // namespace

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : text) {
    if (c == ',' || c == ';' || c == '\0' || c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (!part.empty()) parts.push_back(std::exchange(part, {}));
    } else {
      part += c;
    }
  }
  if (!part.empty()) parts.push_back(part);
  return parts;
}

namespace {

std::pair<std::optional<double>, std::optional<double>> read_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  const auto number_at = [](std::string_view part) -> std::optional<double> {
    if (part.empty()) return std::nullopt;
    return std::stod(std::string(part));
  };
  return {number_at(text.substr(0, dots)), number_at(text.substr(dots + 2))};
}

/// `scsi{0-30}` is scsi0, scsi1 … scsi30.
std::vector<std::string> expand(const std::string& word) {
  const std::size_t brace = word.find('{');
  if (brace == std::string::npos) return {word};
  const std::size_t dash = word.find('-', brace);
  const int first = std::stoi(word.substr(brace + 1));
  const int last = std::stoi(word.substr(dash + 1));
  std::vector<std::string> all;
  for (int i = first; i <= last; ++i) all.push_back(word.substr(0, brace) + std::to_string(i));
  return all;
}

Parameter read_parameter(std::string_view text) {
  Parameter parameter;
  bool first = true;
  for (std::string token : split(text, ' ')) {
    if (token.empty()) continue;
    if (std::exchange(first, false)) {
      if (token.ends_with('?')) {
        parameter.optional = true;
        token.pop_back();
      }
      parameter.name = token;
    } else if (token == "int") {
      parameter.type = Parameter::Type::Integer;
    } else if (token == "num") {
      parameter.type = Parameter::Type::Number;
    } else if (token == "bool") {
      parameter.type = Parameter::Type::Boolean;
    } else if (token == "list") {
      parameter.type = Parameter::Type::List;
    } else if (token == "key") {
      parameter.default_key = true;
    } else if (token.starts_with("enum=")) {
      for (const std::string& value : split(token.substr(5), ','))
        for (std::string& each : expand(value)) parameter.values.push_back(std::move(each));
    } else if (token.starts_with("format=")) {
      parameter.format = token.substr(7);
    } else if (token.starts_with("pattern=")) {
      parameter.pattern = token.substr(8);
    } else if (token.starts_with("needs=")) {
      parameter.needs = token.substr(6);
    } else if (token.starts_with("alias=")) {
      parameter.alias = token.substr(6);
      parameter.optional = true;
    } else if (token.starts_with("keyalias=")) {
      parameter.key_alias = token.substr(9);
    } else if (token.starts_with("len=")) {
      const auto [least, most] = read_range(token.substr(4));
      if (least) parameter.min_length = static_cast<std::size_t>(*least);
      if (most) parameter.max_length = static_cast<std::size_t>(*most);
    } else if (token.find("..") != std::string::npos) {
      std::tie(parameter.minimum, parameter.maximum) = read_range(token);
    } else {
      throw Error(Fault::Bug, fmt::format("schema table: '{}' in '{}'", token, text));
    }
  }
  return parameter;
}

bool is_integer(std::string_view text) {
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
  if (text.empty()) return false;
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_number(std::string_view text) {
  static const std::regex form("[+-]?(\\d+(\\.\\d*)?|\\.\\d+)([eE][+-]?\\d+)?");
  return std::regex_match(text.begin(), text.end(), form);
}

std::string canonical_integer(const std::string& text) {
  std::string digits = text;
  bool negative = false;
  if (digits[0] == '+' || digits[0] == '-') {
    negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return (negative && digits != "0" ? "-" : "") + digits;
}

std::size_t characters(std::string_view utf8) {
  std::size_t count = 0;
  for (const char c : utf8) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

bool matches(const std::string& pattern, const std::string& value) {
  static std::map<std::string, std::regex> compiled;  // compiling is slow and the patterns are few
  auto found = compiled.find(pattern);
  if (found == compiled.end()) found = compiled.emplace(pattern, std::regex(pattern)).first;
  return std::regex_match(value, found->second);
}

std::string print_number(double value) {
  return fmt::format("{}", value);
}

}  // namespace

Schema::Schema(const Release& release) : nine_(release.nine()) {
  for (const std::string_view table : schema_tables()) read(table);
  for (const Method& method : methods_) {
    const bool any = method.path == "/" || method.path.ends_with("/{volume}");
    const auto slashes = std::count(method.path.begin(), method.path.end(), '/');
    by_verb_[method.verb][any ? 0 : static_cast<std::size_t>(slashes)].push_back(&method);
    if (method.verb == "PUT" && method.path == "/nodes/{node}/qemu/{vmid}/config")
      settings_ = &method;
  }
}

const Schema& Schema::of(const Release& release) {
  static const Schema eight{Release::v8_4()};
  static const Schema nine{Release::v9()};
  return release.nine() ? nine : eight;
}

void Schema::read(std::string_view table) {
  static const std::map<std::string, std::string, std::less<>> in_paths{
      {"node", "node format=pve-node"},
      {"vmid", "vmid int 100..999999999 format=pve-vmid"},
      {"storage", "storage format=pve-storage-id"},
      {"upid", "upid"},
      {"volume", "volume"},
  };
  std::map<std::string, std::vector<Parameter>> groups;
  std::map<std::string, Parameter>* open = nullptr;  // of the format or method being read
  std::vector<Parameter>* group = nullptr;
  const auto add = [&](const Parameter& parameter) {
    if (group != nullptr)
      group->push_back(parameter);
    else if (open != nullptr)
      open->insert_or_assign(parameter.name, parameter);
  };
  bool skip_block = false;
  for (const std::string& raw_line : rocca::split(table, '\n')) {
    std::string line(trim(raw_line));
    if (line.empty() || line.starts_with("#")) continue;
    bool other_release = false;
    if (line.starts_with("8: ") || line.starts_with("9: ")) {
      other_release = (line[0] == '9') != nine_;
      line.erase(0, 3);
    }
    const std::string head = line.substr(0, line.find(' '));
    const bool is_method = head == "GET" || head == "POST" || head == "PUT" || head == "DELETE";
    if (is_method || head == "format" || head == "group") {
      skip_block = other_release;
      open = nullptr;
      group = nullptr;
      if (skip_block) continue;
      if (head == "format") {
        Format& format = formats_[line.substr(7)];
        format.name = line.substr(7);
        open = &format.keys;
      } else if (head == "group") {
        group = &groups[line.substr(6)];
      } else {
        const std::vector<std::string> parts = rocca::split(line, '|');
        Method method;
        method.verb = head;
        method.path = std::string(trim(std::string_view(parts.at(0)).substr(head.size())));
        method.who = std::string(trim(parts.at(1)));
        if (method.who.starts_with("["))
          method.check = text::parse_json(method.who, "schema table");
        const std::string flags = parts.size() > 2 ? parts[2] : "";
        method.protected_ = flags.find("protected") != std::string::npos;
        method.to_node = flags.find("node") != std::string::npos;
        method.token = flags.find("ticket") == std::string::npos;
        for (const std::string& segment : rocca::split(method.path, '/'))
          if (segment.starts_with("{")) {
            const std::string name = segment.substr(1, segment.size() - 2);
            const auto known = in_paths.find(name);
            if (known != in_paths.end())
              method.parameters.emplace(name, read_parameter(known->second));
          }
        methods_.push_back(std::move(method));
        open = &methods_.back().parameters;
      }
      continue;
    }
    if (skip_block || other_release) continue;
    std::size_t from = 0;
    while (from < line.size()) {
      const std::size_t end = std::min(line.find("; ", from), line.size());
      const std::string part(trim(std::string_view(line).substr(from, end - from)));
      from = end + 2;
      if (part.starts_with("use "))
        for (const Parameter& each : groups.at(part.substr(4))) add(each);
      else if (!part.empty())
        add(read_parameter(part.ends_with(';') ? part.substr(0, part.size() - 1) : part));
    }
  }
}

namespace {

/// How many variables of the template take these segments; nothing: they are of another path.
std::optional<std::size_t> variables_in(std::string_view path,
                                        const std::vector<std::string>& segments) {
  std::size_t at = 0, variables = 0;
  path.remove_prefix(1);
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path = slash == path.npos ? std::string_view{} : path.substr(slash + 1);
    if (at == segments.size()) return std::nullopt;
    if (part.front() != '{') {
      if (part != segments[at]) return std::nullopt;
    } else {
      ++variables;
      if (part == "{volume}" && path.empty()) return variables;  // it takes the rest
    }
    ++at;
  }
  return at == segments.size() ? std::optional{variables} : std::nullopt;
}

}  // namespace

const Method* Schema::find(std::string_view verb, const std::vector<std::string>& segments,
                           std::map<std::string, std::string>& bindings) const {
  const Method* best = nullptr;
  std::size_t fewest = 0;
  const auto all = by_verb_.find(verb);
  if (all == by_verb_.end()) return nullptr;
  for (const std::size_t size : {segments.size(), std::size_t{0}}) {
    const auto alike = all->second.find(size);
    if (alike == all->second.end()) continue;
    for (const Method* method : alike->second) {
      const auto variables = variables_in(method->path, segments);
      if (!variables || (best != nullptr && fewest <= *variables)) continue;  // fixed words win
      best = method;
      fewest = *variables;
    }
  }
  if (best == nullptr) return nullptr;
  const std::vector<std::string> parts = rocca::split(best->path, '/');
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (!parts[i].starts_with("{")) continue;
    const auto from = segments.begin() + static_cast<std::ptrdiff_t>(i - 1);
    const bool rest = parts[i] == "{volume}" && i + 1 == parts.size();
    bindings[parts[i].substr(1, parts[i].size() - 2)] =
        rest ? join({from, segments.end()}, "/") : *from;
  }
  return best;
}

const Parameter* Schema::find_setting(const std::string& key) const {
  if (settings_ == nullptr) return nullptr;
  auto found = settings_->parameters.find(key);
  if (found == settings_->parameters.end()) found = settings_->parameters.find(family(key));
  return found == settings_->parameters.end() ? nullptr : &found->second;
}

const Format* Schema::find_format(std::string_view name) const {
  if (name.empty()) return nullptr;
  const auto found = formats_.find(std::string(name));
  return found == formats_.end() ? nullptr : &found->second;
}

std::optional<std::string> Schema::check_value(const Parameter& parameter,
                                               std::string& value) const {
  using Type = Parameter::Type;
  const auto wrong_type = [&](const char* type) {
    return fmt::format("type check ('{}') failed - got '{}'", type, value);
  };
  if (parameter.type == Type::Integer && !is_integer(value)) return wrong_type("integer");
  if (parameter.type == Type::Number && !is_number(value)) return wrong_type("number");
  if (parameter.type == Type::Boolean && value != "0" && value != "1") return wrong_type("boolean");
  if (!parameter.format.empty()) {
    if (const Format* format = find_format(parameter.format)) {
      try {
        const auto keys = parse(*format, value, parameter.name);
        if (parameter.format == "pve-vm-cpu-conf")
          if (const auto model = keys.find("cputype"); model != keys.end())
            if (const auto problem = check_format("pve-vm-cpu-model", model->second))
              return "invalid format - " + *problem + "\n";
      } catch (const std::string& problem) {
        return "invalid format - " + problem;
      }
    } else if (parameter.format.ends_with("-list")) {
      const std::string each = parameter.format.substr(0, parameter.format.size() - 5);
      for (const std::string& item : split_list(value))
        if (auto problem = check_format(each, item)) return "invalid format - " + *problem + "\n";
    } else if (auto problem = check_format(parameter.format, value)) {
      return "invalid format - " + *problem + "\n";
    }
  }
  if (!parameter.pattern.empty() && !matches(parameter.pattern, value))
    return "value does not match the regex pattern";
  if (parameter.max_length && characters(value) > *parameter.max_length)
    return fmt::format("value may only be {} characters long", *parameter.max_length);
  if (parameter.min_length && characters(value) < *parameter.min_length)
    return fmt::format("value must be at least {} characters long", *parameter.min_length);
  if (parameter.type == Type::Integer || parameter.type == Type::Number) {
    const double as_number = std::stod(value);
    if (parameter.maximum && as_number > *parameter.maximum)
      return "value must have a maximum value of " + print_number(*parameter.maximum);
    if (parameter.minimum && as_number < *parameter.minimum)
      return "value must have a minimum value of " + print_number(*parameter.minimum);
  }
  if (!parameter.values.empty()) {
    bool known = false;
    for (const std::string& each : parameter.values) known = known || each == value;
    if (!known)
      return fmt::format("value '{}' does not have a value in the enumeration '{}'", value,
                         join(parameter.values, ", "));
  }
  if (parameter.type == Type::Integer) value = canonical_integer(value);
  return std::nullopt;
}

namespace {

/// By the name that it has here: `scsi3` is checked by what is known of `scsi[n]`. Only what is
/// made of keys itself tells it.
std::optional<std::string> check_named(const Schema& schema, const Parameter& parameter,
                                       const std::string& name, std::string& value) {
  if (parameter.name == name || schema.find_format(parameter.format) == nullptr)
    return schema.check_value(parameter, value);
  Parameter named = parameter;
  named.name = name;
  return schema.check_value(named, value);
}

}  // namespace

Parameters Schema::check(const Method& method, const RawParameters& raw) const {
  Parameters parameters;
  std::map<std::string, std::string> errors;
  for (const auto& [name, given] : raw) {
    auto found = method.parameters.find(name);
    if (found == method.parameters.end() && is_member(name))
      found = method.parameters.find(family(name));
    if (found == method.parameters.end()) {
      errors[name] =
          "property is not defined in schema and the schema does not allow additional properties";
      continue;
    }
    const Parameter& parameter = found->second;
    if (parameter.type == Parameter::Type::List) {
      Parameter item = parameter;
      item.type = Parameter::Type::String;
      std::vector<std::string> values = given.values;
      for (std::size_t i = 0; i < values.size(); ++i)
        if (auto problem = check_value(item, values[i]))
          errors[fmt::format("{}[{}]", name, i)] = *problem;
      parameters.set_list(name, std::move(values));
      continue;
    }
    if (given.list && !parameter.format.ends_with("-list")) {
      const char* type = parameter.type == Parameter::Type::Integer   ? "integer"
                         : parameter.type == Parameter::Type::Number  ? "number"
                         : parameter.type == Parameter::Type::Boolean ? "boolean"
                                                                      : "string";
      errors[name] = fmt::format("type check ('{}') failed - got ARRAY", type);
      continue;
    }
    std::string value = given.list ? join(given.values, ",") : given.values.front();
    if (auto problem = check_named(*this, parameter, name, value))
      errors[name] =
          nine_ && parameter.format == "pve-storage-id" && value.size() < 2
              ? fmt::format(
                    "invalid format - storage ID '{}' cannot be shorter than 2 characters\n", value)
              : *problem;
    else
      parameters.set(name, value);
  }
  for (const auto& [name, parameter] : method.parameters)
    if (!parameter.optional && !raw.contains(name))
      errors[name] = "property is missing and it is not optional";
  for (const auto& [name, given] : raw) {
    auto found = method.parameters.find(name);
    if (found == method.parameters.end() || found->second.needs.empty() ||
        raw.contains(found->second.needs))
      continue;
    errors[found->second.needs] =
        nine_ ? fmt::format("missing property required by '{}'", name)
              : fmt::format("missing property - '{}' requires this property", name);
  }
  if (!errors.empty()) refuse_parameters(errors);
  return parameters;
}

namespace {

std::optional<std::string> as_boolean(std::string_view text) {
  const std::string word = to_lower(text);
  if (word == "1" || word == "on" || word == "yes" || word == "true") return "1";
  if (word == "0" || word == "off" || word == "no" || word == "false") return "0";
  return std::nullopt;
}

}  // namespace

std::map<std::string, std::string> Schema::parse(const Format& format, std::string_view text,
                                                 std::string_view path) const {
  std::map<std::string, std::string> values;
  std::map<std::string, std::string> errors;
  const Parameter* default_key = format.default_key();
  for (const std::string& part : rocca::split(text, ',')) {
    if (trim(part).empty()) continue;
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) {
      if (default_key == nullptr)
        throw std::string("value without key, but schema does not define a default key\n");
      if (values.contains(default_key->name))
        throw fmt::format("duplicate key in comma-separated list property: {}\n",
                          default_key->name);
      values[default_key->name] = nine_ && default_key->type == Parameter::Type::Boolean
                                      ? as_boolean(part).value_or(part)
                                      : part;
      continue;
    }
    if (equals == 0 || equals + 1 == part.size())
      throw std::string("missing key in comma-separated list property\n");
    std::string key = part.substr(0, equals);
    std::string value = part.substr(equals + 1);
    auto found = format.keys.find(key);
    if (found != format.keys.end() && !found->second.alias.empty()) {
      if (!found->second.key_alias.empty()) {
        if (values.contains(found->second.key_alias))
          throw fmt::format("duplicate key in comma-separated list property: {}\n",
                            found->second.key_alias);
        values[found->second.key_alias] = key;
      }
      key = found->second.alias;
      found = format.keys.find(key);
    }
    if (values.contains(key))
      throw fmt::format("duplicate key in comma-separated list property: {}\n", key);
    if (found != format.keys.end() && found->second.type == Parameter::Type::Boolean)
      value = as_boolean(value).value_or(value);
    values[key] = value;
  }
  for (auto& [key, value] : values) {
    const auto full = [&path, &key = key] { return fmt::format("{}.{}", path, key); };
    const auto found = format.keys.find(key);
    if (found == format.keys.end()) {
      errors[full()] =
          "property is not defined in schema and the schema does not allow additional properties";
      continue;
    }
    const Parameter& parameter = found->second;
    const bool plain = find_format(parameter.format) == nullptr;
    if (auto problem =
            plain ? check_value(parameter, value) : check_named(*this, parameter, full(), value))
      errors[full()] = *problem;
    if (!parameter.needs.empty() && !values.contains(parameter.needs))
      errors[fmt::format("{}.{}", path, parameter.needs)] =
          nine_ ? fmt::format("missing property required by '{}'", key)
                : fmt::format("missing property - '{}' requires this property", key);
  }
  for (const auto& [key, parameter] : format.keys)
    if (!parameter.optional && !values.contains(key))
      errors[fmt::format("{}.{}", path, key)] = "property is missing and it is not optional";
  if (!errors.empty()) {
    std::string problem = "format error\n";
    for (const auto& [key, text_of] : errors) problem += fmt::format("{}: {}\n", key, text_of);
    throw problem;
  }
  return values;
}

std::string Schema::print(const Format& format,
                          const std::map<std::string, std::string>& values) const {
  std::vector<std::string> parts;
  std::map<std::string, std::string> left = values;
  const auto put = [&](const std::string& key) {
    const auto found = left.find(key);
    if (found == left.end()) return;
    const auto known = format.keys.find(key);
    const bool bare = known != format.keys.end() && known->second.default_key;
    parts.push_back(bare ? found->second : key + "=" + found->second);
    left.erase(found);
  };
  // A keyed alias (`virtio=MAC`) puts two keys into one.
  for (const auto& [name, parameter] : format.keys) {
    if (parameter.key_alias.empty()) continue;
    const auto key = left.find(parameter.key_alias);
    const auto value = left.find(parameter.alias);
    if (key == left.end() || value == left.end() || key->second != name) continue;
    parts.push_back(name + "=" + value->second);
    left.erase(key);
    left.erase(parameter.alias);
    break;
  }
  if (const Parameter* default_key = format.default_key()) put(default_key->name);
  for (const auto& [name, parameter] : format.keys)
    if (!parameter.optional) put(name);
  while (!left.empty()) put(left.begin()->first);
  return join(parts, ",");
}

}  // namespace rocca::lab::pve
