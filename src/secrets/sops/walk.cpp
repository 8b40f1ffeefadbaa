#include "secrets/sops/walk.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "secrets/crypto.hpp"
#include "secrets/sops/cipher.hpp"
#include "text/scalar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace rocca::secrets::sops {
namespace {

using text::Kind;
using text::Value;

/// What is sealed and hashed for a scalar, byte for byte as Go writes it.
struct Clear {
  std::string bytes;
  std::string type;

  Clear() = default;
  Clear(std::string b, std::string t) : bytes(std::move(b)), type(std::move(t)) {}
  Clear(Clear&&) = default;
  Clear& operator=(Clear&&) = default;
  ~Clear() { wipe(bytes); }
};

std::string fixed(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Inf" : "+Inf";
  std::array<char, 1200> buffer;  // 309 digits before the point, or 1074 behind it
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  return {buffer.data(), end};
}

std::optional<Clear> clear_of(const Value& value) {
  switch (value.kind()) {
    case Kind::String: {
      if (value.tag() != "!!binary") return Clear{value.text(), "str"};
      std::string encoded;
      for (const char c : value.text())
        if (c != '\n' && c != ' ' && c != '\r' && c != '\t') encoded += c;
      auto bytes = from_base64(encoded);
      wipe(encoded);
      if (!bytes) return std::nullopt;
      return Clear{std::move(*bytes), "str"};
    }
    case Kind::Int: {
      const auto number = value.as_int();
      if (!number) return std::nullopt;
      return Clear{std::to_string(*number), "int"};
    }
    case Kind::Float: {
      const auto number = value.as_float();
      if (!number) return std::nullopt;
      return Clear{fixed(*number), "float"};
    }
    case Kind::Bool:
      return Clear{value.as_bool().value_or(false) ? "True" : "False", "bool"};
    case Kind::Timestamp: {
      auto time = text::normal_timestamp(value.text());
      if (!time) return std::nullopt;
      return Clear{std::move(*time), "time"};
    }
    default:
      return std::nullopt;
  }
}

/// The scalar that a plaintext of a type stands for; nothing if it does not fit.
std::optional<Value> value_of(const Secret& plaintext, std::string_view type, Format format) {
  const std::string_view bytes = plaintext.reveal();
  if (type == "str" || type == "bytes") {
    if (format == Format::Yaml && !is_utf8(bytes)) {
      Value value = Value::string(to_base64(bytes), text::Style::Plain);
      value.set_tag("!!binary");
      return value;
    }
    return Value::string(std::string{bytes});
  }
  if (type == "int") {
    const auto number = parse_int(bytes);
    if (!number) return std::nullopt;
    return Value::integer(*number);
  }
  if (type == "float") {
    if (bytes == "NaN") return Value::floating(NAN);
    if (bytes == "+Inf" || bytes == "Inf") return Value::floating(INFINITY);
    if (bytes == "-Inf") return Value::floating(-INFINITY);
    if (!text::read_float(bytes) && !text::read_integer(bytes)) return std::nullopt;
    return Value::scalar(Kind::Float, std::string{bytes}, text::Style::Any);
  }
  if (type == "bool") {
    const std::string word = to_lower(bytes);
    if (word == "true" || word == "t" || word == "1") return Value::boolean(true);
    if (word == "false" || word == "f" || word == "0") return Value::boolean(false);
    return std::nullopt;
  }
  if (type == "time") {
    if (!text::normal_timestamp(bytes)) return std::nullopt;
    return Value::scalar(Kind::Timestamp, std::string{bytes}, text::Style::Plain);
  }
  return std::nullopt;
}

template <class T>  // a Value or an Entry
bool is_commented(const T& value) {
  const text::Comments& comments = value.comments();
  return !comments.before.empty() || comments.beside || !comments.after.empty();
}

void replace(Value& value, Value fresh) {
  if (is_commented(value)) fresh.comments() = std::as_const(value).comments();
  fresh.set_place(value.place());
  value = std::move(fresh);
}

/// sops writes a sealed comment between the items of a list as an item. Here it is a comment again.
void lift_comments(Value& value) {
  for (text::Entry& entry : value.entries()) lift_comments(entry.value);
  if (!value.is_list()) return;
  std::vector<Value> items;
  std::vector<std::string> waiting;
  for (Value& item : value.items()) {
    const auto sealed = item.is_string() ? SealedValue::parse(item.text()) : std::nullopt;
    if (sealed && sealed->type == "comment") {
      waiting.push_back(item.text());
      continue;
    }
    lift_comments(item);
    if (!waiting.empty()) {
      auto& before = item.comments().before;
      before.insert(before.begin(), waiting.begin(), waiting.end());
      waiting.clear();
    }
    items.push_back(std::move(item));
  }
  if (!waiting.empty()) {
    auto& after = items.empty() ? value.comments().after : items.back().comments().after;
    after.insert(after.end(), waiting.begin(), waiting.end());
  }
  value.items() = std::move(items);
}

}  // namespace

Sealer::Sealer(const Selection& selection, Format format, const Secret& data_key,
               std::string_view name)
    : selection_(selection), format_(format), data_key_(data_key), name_(name) {
  if (selection.rule != Rule::UnencryptedSuffix && selection.rule != Rule::EncryptedSuffix)
    pattern_.emplace(selection.pattern);
  // Known bytes first, so that a MAC of this kind never equals one of the other.
  if (selection.mac_only_encrypted) hashed_ = crypto::sha256("sops");
}

Sealer::~Sealer() {
  wipe(hashed_);
}

std::string Sealer::mac() const {
  std::string hex = to_hex(crypto::sha512(hashed_));
  std::transform(hex.begin(), hex.end(), hex.begin(),
                 [](char c) { return c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c; });
  return hex;
}

void Sealer::open(std::vector<Value>& documents, Stash* stash) {
  stash_ = stash;
  for (Value& root : documents) {
    lift_comments(root);
    document(root);
  }
}

void Sealer::seal(std::vector<Value>& documents, Entropy& entropy, Stash* stash) {
  entropy_ = &entropy;
  stash_ = stash;
  for (Value& root : documents) document(root);
}

bool Sealer::selected(bool is_comment) const {
  const auto any_key = [&](const auto& hits) {
    return std::any_of(path_.begin(), path_.end(), hits);
  };
  const auto suffix = [&](const std::string& key) { return key.ends_with(selection_.pattern); };
  const auto match = [&](const std::string& text) { return pattern_->found_in(text); };
  switch (selection_.rule) {
    case Rule::UnencryptedSuffix:
      return !any_key(suffix);
    case Rule::EncryptedSuffix:
      return any_key(suffix);
    case Rule::UnencryptedRegex:
      return !any_key(match);
    case Rule::EncryptedRegex:
      return any_key(match);
    case Rule::UnencryptedCommentRegex:
    case Rule::EncryptedCommentRegex:
      break;
  }
  const bool wanted = selection_.rule == Rule::EncryptedCommentRegex;
  for (std::size_t level = 0; level < active_.size(); ++level)
    for (std::size_t i = 0; i < active_[level].size(); ++i) {
      // The comment that says "encrypt" stays readable itself.
      const bool itself =
          is_comment && level + 1 == active_.size() && i + 1 == active_[level].size();
      if (wanted && itself) continue;
      if (match(active_[level][i])) return wanted;
    }
  return !wanted;
}

std::string Sealer::aad() const {
  return join(path_, ":") + ":";
}
std::string Sealer::where() const {
  return join(shown_, ".");
}

void Sealer::refuse(const std::string& why) const {
  throw Error(Fault::Rejected, fmt::format("{}: `{}` {}", name_, where(), why))
      .hint("was the file changed by hand, or merged? Take the last version that opens");
}

void Sealer::document(Value& root) {
  path_.clear();
  shown_.clear();
  active_.assign(1, {});
  const bool commented = is_commented(root);
  if (commented) {
    comments(root.comments().before);
    if (root.comments().beside) comment(*root.comments().beside);
  }
  collection(root);
  if (commented) comments(root.comments().after);
}

/// Inside of a level that the caller has opened.
void Sealer::collection(Value& whole) {
  const std::vector<std::string> around = std::move(neighbours_);
  std::string previous;
  for (text::Entry& entry : whole.entries()) {
    neighbours_ = {entry.key, previous};
    const bool commented = is_commented(entry);
    if (commented) comments(entry.comments().before);
    // What stands beside a flow collection belongs inside of it for sops.
    const bool flow = !entry.value.is_scalar() &&
                      (entry.value.style() == text::Style::Flow || entry.value.size() == 0);
    const bool beside = commented && entry.comments().beside;
    if (beside && !flow) comment(*entry.comments().beside);
    path_.push_back(entry.key);
    shown_.push_back(entry.key);
    if (beside && flow) comment(*entry.comments().beside);
    value(entry.value);
    path_.pop_back();
    shown_.pop_back();
    active_.back().clear();
    neighbours_ = {entry.key};
    if (commented) comments(entry.comments().after);
    previous = entry.key;
  }
  neighbours_ = around;
  for (std::size_t i = 0; i < whole.items().size(); ++i) {
    Value& item = whole.items()[i];
    const bool commented = is_commented(item);
    if (commented) {
      comments(item.comments().before);
      if (item.comments().beside) comment(*item.comments().beside);
    }
    shown_.push_back(std::to_string(i));
    value(item);
    shown_.pop_back();
    active_.back().clear();
    if (commented) comments(item.comments().after);
  }
}

void Sealer::value(Value& value) {
  if (value.is_scalar()) {
    if (!value.is_null()) leaf(value);
    return;
  }
  active_.emplace_back();
  collection(value);
  active_.pop_back();
}

void Sealer::comments(std::vector<std::string>& lines) {
  for (std::string& line : lines) comment(line);
}

void Sealer::comment(std::string& line) {
  active_.back().push_back(line);
  if (line.empty() || !selected(true)) return;
  if (entropy_ != nullptr) {
    std::string sealed = sealed_text(line, "comment");
    if (selection_.rule == Rule::UnencryptedCommentRegex && pattern_->found_in(sealed))
      throw Error(Fault::Usage, fmt::format("{}: `unencrypted_comment_regex` matches sealed "
                                            "comments, which could then not be read back",
                                            name_));
    wipe(line);
    line = std::move(sealed);
    return;
  }
  const auto sealed = SealedValue::parse(line);
  if (!sealed) return;  // old files have them in clear
  // The place of a comment is that of the map around it. Writers have not always agreed which map
  // that is: those further out and those beside it are tried, too.
  std::vector<Path> places{path_};
  for (const std::string& key : neighbours_) {
    places.push_back(path_);
    places.back().push_back(key);
  }
  for (Path outer = path_; !outer.empty();) {
    outer.pop_back();
    places.push_back(outer);
  }
  for (const Path& place : places) {
    const std::string aad_there = join(place, ":") + ":";
    const auto plaintext = sops::open(*sealed, data_key_, aad_there);
    if (!plaintext) continue;
    std::string clear{plaintext->reveal()};
    if (stash_ != nullptr && place == path_)
      (*stash_)[crypto::sha256("comment\n" + aad_there + "\n" + clear)].push_back(line);
    line = std::move(clear);
    return;
  }
}

std::string Sealer::sealed_text(std::string_view plaintext, const std::string& type) {
  const std::string place = aad();
  if (stash_ != nullptr) {
    std::string known = type + "\n" + place + "\n" + std::string{plaintext};
    const auto found = stash_->find(crypto::sha256(known));
    wipe(known);
    if (found != stash_->end() && !found->second.empty()) {
      std::string text = std::move(found->second.front());
      found->second.pop_front();
      return text;
    }
  }
  return sops::seal(plaintext, type, data_key_, place, *entropy_).text();
}

void Sealer::leaf(Value& value) {
  const bool sealed = selected(false);
  if (entropy_ == nullptr && sealed) return open_leaf(value);
  const auto clear = clear_of(value);
  if (!clear)
    throw Error(
        Fault::Usage,
        fmt::format("{}: SOPS cannot hold the {} `{}` at `{}`", name_, to_string(value.kind()),
                    value.kind() == Kind::String ? "…" : value.text(), where()))
        .hint("write it as a string, in quotes");
  if (sealed || !selection_.mac_only_encrypted) hashed_ += clear->bytes;
  if (!sealed || clear->bytes.empty()) return;
  replace(value, Value::string(sealed_text(clear->bytes, clear->type), text::Style::Plain));
}

void Sealer::open_leaf(Value& value) {
  if (!value.is_string())
    refuse(fmt::format("is not sealed: a {} stands in its place", to_string(value.kind())));
  if (value.text().empty()) return;
  const auto sealed = SealedValue::parse(value.text());
  if (!sealed) refuse("is not sealed, but it should be");
  const auto plaintext = sops::open(*sealed, data_key_, aad());
  if (!plaintext)
    refuse("cannot be opened: it was changed, or it belongs to another place or another file");
  auto clear = value_of(*plaintext, sealed->type, format_);
  if (!clear)
    refuse(fmt::format("is of type `{}`, which does not fit what is in it", sealed->type));
  const auto canonical = clear_of(*clear);
  if (!canonical) refuse("cannot be read");
  hashed_ += canonical->bytes;
  if (stash_ != nullptr) {
    std::string known = sealed->type + "\n" + aad() + "\n" + std::string{plaintext->reveal()};
    (*stash_)[crypto::sha256(known)].push_back(value.text());
    wipe(known);
  }
  replace(value, std::move(*clear));
}

}  // namespace rocca::secrets::sops
