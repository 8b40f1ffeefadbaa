#include "secrets/sops/sops.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "secrets/sops/cipher.hpp"
#include "secrets/sops/format.hpp"
#include "secrets/sops/shamir.hpp"
#include "secrets/sops/walk.hpp"
#include "text/edit.hpp"
#include "text/scalar.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::secrets::sops {
namespace {

using text::Value;

constexpr std::size_t data_key_size = 32;

/// RFC 3339 with whole seconds: the form that the MAC is bound to.
std::optional<std::string> whole_seconds(std::string_view text) {
  auto normal = text::normal_timestamp(text);
  if (!normal) return std::nullopt;
  if (const auto point = normal->find('.'); point != std::string::npos) {
    const auto end = normal->find_first_of("Z+-", point);
    normal->erase(point, end - point);
  }
  return normal;
}

std::string now_text(const Clock& clock) {
  return rocca::to_string(Instant{std::chrono::floor<std::chrono::seconds>(clock.now())});
}

Value wrapped_key(const std::string& recipient, const Secret& key, Entropy& entropy) {
  Value entry = Value::map();
  entry.set("enc", Value::string(age::encrypt(key.reveal(), {age::Recipient::parse(recipient)},
                                              entropy, /*armor=*/true)));
  entry.set("recipient", Value::string(recipient));
  return entry;
}

/// Wraps the data key (or its shares) for every key that has no entry yet.
Recipients wrapped(Recipients recipients, const Secret& data_key, Entropy& entropy) {
  auto& groups = recipients.groups;
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  if (groups.empty())
    throw Error(Fault::Usage, "no recipient is given")
        .hint("name one with `--age age1…`, or write a rule into `.sops.yaml`");
  std::vector<Secret> shares{data_key};
  if (groups.size() > 1) {
    const auto count = static_cast<unsigned>(groups.size());
    if (recipients.threshold == 0) recipients.threshold = count;
    shares = shamir::split(data_key, count, std::clamp(recipients.threshold, 2u, count), entropy);
    recipients.threshold = std::clamp(recipients.threshold, 2u, count);
  } else {
    recipients.threshold = 0;
  }
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (MasterKey& key : groups[i]) {
      if (!key.entry.is_null()) continue;
      if (key.kind != "age")
        throw Error(
            Fault::Usage,
            fmt::format("{} is no age recipient, and rocca encrypts to age alone", key.shown()))
            .hint("use an age recipient (age1…), or let `sops` write this file");
      key.entry = wrapped_key(key.id, shares[i], entropy);
    }
  return recipients;
}

Recipients without_entries(Recipients recipients) {
  for (auto& group : recipients.groups)
    for (MasterKey& key : group) key.entry = {};
  return recipients;
}

void finish_metadata(Value& metadata, const std::string& mac, const Secret& data_key,
                     const Clock& clock, Entropy& entropy) {
  const std::string modified = now_text(clock);
  metadata.set("lastmodified", Value::string(modified, text::Style::Double));
  metadata.set("mac", Value::string(seal(mac, "str", data_key, modified, entropy).text(),
                                    text::Style::Plain));
}

unsigned detect_yaml_indent(const Value& metadata) {
  const std::size_t column = metadata.place().column;
  return metadata.style() == text::Style::Block && column > 2 && column < 10
             ? static_cast<unsigned>(column - 1)
             : 4;
}

std::string detect_json_indent(std::string_view source) {
  const auto line = source.find("\n");
  if (line == std::string_view::npos) return "\t";
  const auto end = source.find_first_not_of(" \t", line + 1);
  if (end == std::string_view::npos || end == line + 1) return "\t";
  return std::string{source.substr(line + 1, end - line - 1)};
}

void collect_names(const Value& value, const std::string& at, std::vector<std::string>& out) {
  if (value.is_scalar()) out.push_back(at);
  const std::string prefix = at.empty() ? "" : at + ".";
  for (const text::Entry& entry : value.entries())
    collect_names(entry.value, prefix + entry.key, out);
  for (std::size_t i = 0; i < value.items().size(); ++i)
    collect_names(value.items()[i], prefix + std::to_string(i), out);
}

}  // namespace

// --- Plain

Plain::Plain(Format format, std::vector<Value> documents)
    : format_(format), documents_(std::move(documents)) {}

Plain& Plain::operator=(Plain&& other) noexcept {
  std::swap(format_, other.format_);
  std::swap(documents_, other.documents_);
  return *this;
}

Plain::~Plain() {
  for (Value& document : documents_) document.wipe();
}

Plain Plain::parse(std::string_view text, Format format, std::string_view name) {
  if (format == Format::Binary) {
    Value map = Value::map();
    map.set("data", Value::string(std::string{text}));
    std::vector<Value> documents;
    documents.push_back(std::move(map));
    return Plain(format, std::move(documents));
  }
  Plain plain(format, read_documents(text, format, name));
  require_sops_shape(plain.documents_, name);
  for (const Value& document : plain.documents_)
    for (const text::Entry& entry : document.entries())
      if (format == Format::Dotenv ? entry.key.starts_with("sops_") : entry.key == "sops")
        throw Error(Fault::Usage,
                    fmt::format("{}: it is encrypted already: it has a key `{}`", name, entry.key))
            .hint("change it with `rocca secrets edit`, or decrypt it first");
  return plain;
}

Secret Plain::text(unsigned yaml_indent, const std::string& json_indent) const {
  if (format_ == Format::Binary) {
    const Value* data = documents_.front().find("data");
    return Secret{data == nullptr ? "" : data->text()};
  }
  return Secret::take(write_documents(documents_, format_, yaml_indent, json_indent));
}

// --- encrypt

std::string encrypt(const Plain& plain, const Recipe& recipe, const Clock& clock,
                    Entropy& entropy) {
  const Secret data_key = Secret::take(entropy.bytes(data_key_size));
  Value metadata = Value::map();
  write_recipients(wrapped(recipe.recipients, data_key, entropy), metadata);
  write_selection(recipe.selection, metadata);
  std::vector<Value> documents = plain.documents();
  Sealer sealer(recipe.selection, plain.format(), data_key, "text");
  sealer.seal(documents, entropy);
  finish_metadata(metadata, sealer.mac(), data_key, clock, entropy);
  metadata.set("version", Value::string(written_version));
  sort_metadata(metadata);
  put_metadata(documents, plain.format(), metadata);
  return write_documents(documents, plain.format(), recipe.yaml_indent, recipe.json_indent);
}

// --- File

File File::parse(std::string_view text, Format format, std::string_view name) {
  File file;
  file.name_ = name;
  file.source_ = text;
  file.format_ = format;
  file.documents_ = read_documents(text, format, name);
  file.metadata_ = take_metadata(file.documents_, format, name);
  if (!file.metadata_.is_map())
    throw Error(Fault::Usage,
                fmt::format("{}: it is not encrypted: there are no SOPS metadata in it", name))
        .hint("encrypt it with `rocca secrets encrypt`");
  require_sops_shape(file.documents_, name);
  file.recipients_ = read_recipients(file.metadata_, name);
  file.selection_ = read_selection(file.metadata_, name);
  if (const Value* version = file.metadata_.find("version")) file.version_ = version->text();
  if (const auto version = Version::parse_loose(file.version_); version && version->major() > 3)
    throw Error(Fault::Usage,
                fmt::format("{}: it was written by SOPS {}; rocca knows the files of SOPS 3", name,
                            file.version_));
  const Value* modified = file.metadata_.find("lastmodified");
  const auto seconds = modified == nullptr ? std::nullopt : whole_seconds(modified->text());
  if (!seconds)
    throw Error(Fault::Usage,
                fmt::format("{}: the SOPS metadata have no `lastmodified` that can be read", name));
  file.last_modified_ = *seconds;
  file.yaml_indent_ = detect_yaml_indent(file.metadata_);
  file.json_indent_ = detect_json_indent(text);
  return file;
}

std::vector<std::string> File::names() const {
  std::vector<std::string> out;
  for (const Value& document : documents_) collect_names(document, "", out);
  return out;
}

Secret File::data_key(const std::vector<age::Identity>& identities) const {
  std::vector<Secret> parts;
  std::vector<std::string> damaged;
  for (const auto& group : recipients_.groups) {
    for (const MasterKey& key : group) {
      if (key.kind != "age" || identities.empty()) continue;
      const Value* enc = key.entry.find("enc");
      if (enc == nullptr) continue;
      try {
        parts.push_back(age::decrypt(enc->text(), identities, age::Armor::Yes));
        break;
      } catch (const age::AgeError& error) {
        if (error.failure() != age::Failure::NoMatch)
          damaged.push_back(fmt::format("{}: {}", key.shown(), error.message()));
      }
    }
  }
  const std::size_t groups = recipients_.groups.size();
  const std::size_t needed = groups == 1                  ? 1
                             : recipients_.threshold == 0 ? groups
                                                          : recipients_.threshold;
  if (parts.size() >= needed && !parts.empty()) {
    Secret key = groups == 1 ? parts.front() : shamir::combine(parts);
    if (key.size() != data_key_size)
      throw Error(Fault::Rejected,
                  fmt::format("{}: its data key has {} bytes instead of 32", name_, key.size()));
    return key;
  }
  std::vector<std::string> all;
  bool any_age = false;
  for (const auto& group : recipients_.groups)
    for (const MasterKey& key : group) {
      all.push_back(key.shown());
      any_age = any_age || key.kind == "age";
    }
  if (!damaged.empty())
    throw Error(Fault::Rejected,
                fmt::format("{}: its data key cannot be read: {}", name_, join(damaged, "; ")))
        .hint("take the last version that opens");
  if (!any_age)
    throw Error(Fault::Denied, fmt::format("{}: only {} can open it, and rocca opens age alone",
                                           name_, enumerate(all, "or")))
        .hint("add an age recipient with `sops updatekeys`, where that key is at hand");
  const std::string need =
      groups == 1 ? ""
                  : fmt::format(" ({} of {} key groups are needed, {} could be opened)", needed,
                                groups, parts.size());
  throw Error(Fault::Denied, fmt::format("{}: no key at hand opens it; it is for {}{}", name_,
                                         enumerate(all, "or"), need))
      .hint("put the identity into SOPS_AGE_KEY, SOPS_AGE_KEY_FILE or ~/.config/sops/age/keys.txt");
}

Plain File::decrypt(const Secret& data_key) const {
  Plain plain(format_, documents_);
  Sealer sealer(selection_, format_, data_key, name_);
  sealer.open(plain.documents());
  const Value* stored = metadata_.find("mac");
  if (stored == nullptr || stored->text().empty())
    throw Error(Fault::Rejected,
                fmt::format("{}: it has no MAC, so nobody can tell whether it was changed", name_))
        .hint("take the last version that has `sops.mac`");
  const auto sealed = SealedValue::parse(stored->text());
  const auto mac = sealed ? open(*sealed, data_key, last_modified_) : std::nullopt;
  if (!mac)
    throw Error(
        Fault::Rejected,
        fmt::format("{}: its MAC cannot be opened: `sops.mac` or `sops.lastmodified` was changed",
                    name_))
        .hint("take the last version that opens");
  if (!equal_in_constant_time(mac->reveal(), sealer.mac()))
    throw Error(
        Fault::Rejected,
        fmt::format(
            "{}: MAC mismatch: values were changed, moved, added or taken away without the key",
            name_))
        .hint("take the last version that opens; change values with `rocca secrets edit`");
  return plain;
}

std::string File::write(std::vector<Value> documents, const Value& metadata) const {
  put_metadata(documents, format_, metadata);
  return write_documents(documents, format_, yaml_indent_, json_indent_);
}

std::string File::sealed_again(const Plain& plain, const Secret& old_key, const Secret& new_key,
                               const Value& metadata, const Clock& clock, Entropy& entropy) const {
  Stash stash;
  if (&old_key == &new_key) {
    Plain old(format_, documents_);
    Sealer(selection_, format_, old_key, name_).open(old.documents(), &stash);
  }
  std::vector<Value> documents = plain.documents();
  Sealer sealer(selection_, format_, new_key, name_);
  sealer.seal(documents, entropy, &stash);
  Value fresh = metadata;
  finish_metadata(fresh, sealer.mac(), new_key, clock, entropy);
  return write(std::move(documents), fresh);
}

std::string File::with_content(const Plain& plain, const Secret& data_key, const Clock& clock,
                               Entropy& entropy) const {
  Value metadata = metadata_;
  const auto version = Version::parse_loose(version_);
  if (!version || *version < *Version::parse(written_version))
    metadata.set("version", Value::string(written_version));
  return sealed_again(plain, data_key, data_key, metadata, clock, entropy);
}

std::string File::set(const text::Path& path, const Value& value, const Secret& data_key,
                      const Clock& clock, Entropy& entropy) const {
  if (path.empty() || path.front() == "sops" ||
      (format_ == Format::Dotenv && path.front().starts_with("sops_")))
    throw Error(Fault::Usage, "the SOPS metadata cannot be set");
  Plain plain = decrypt(data_key);
  Value before = plain.documents().front();
  text::set_in(plain.documents().front(), path, value);
  const std::string whole = sealed_again(plain, data_key, data_key, metadata_, clock, entropy);
  const bool known = text::erase_in(before, path);
  before.wipe();
  if (!known || documents_.size() > 1 || (format_ != Format::Yaml && format_ != Format::Json))
    return whole;
  // What stands there already is changed in place: take the sealed value and the metadata over.
  const File fresh = parse(whole, format_, name_);
  const Value* sealed = &fresh.documents_.front();
  for (const std::string& step : path) sealed = sealed->find({step});
  const auto put = [&](std::string_view source, const text::Path& at, const Value& fresh_value) {
    return format_ == Format::Yaml ? text::set_in_yaml(source, at, fresh_value)
                                   : text::set_in_json(source, at, fresh_value);
  };
  try {
    std::string changed = put(source_, path, *sealed);
    for (const char* key : {"lastmodified", "mac"})
      changed = put(changed, {"sops", key}, *fresh.metadata_.find(key));
    parse(changed, format_, name_).decrypt(data_key);
    return changed;
  } catch (const Error& error) {
    // An anchor or a tag is in the way of a change in place: the file is written as a whole.
    if (error.fault() != Fault::Usage && error.fault() != Fault::Rejected) throw;
    return whole;
  }
}

std::string File::unset(const text::Path& path, const Secret& data_key, const Clock& clock,
                        Entropy& entropy) const {
  Plain plain = decrypt(data_key);
  if (path.empty() || path.front() == "sops" || !text::erase_in(plain.documents().front(), path))
    throw Error(Fault::NotFound, fmt::format("{}: there is no `{}` in it", name_, join(path, ".")));
  return sealed_again(plain, data_key, data_key, metadata_, clock, entropy);
}

std::string File::rotate(const Secret& data_key, const Clock& clock, Entropy& entropy) const {
  Plain plain = decrypt(data_key);
  const Secret fresh = Secret::take(entropy.bytes(data_key_size));
  Value metadata = metadata_;
  write_recipients(wrapped(without_entries(recipients_), fresh, entropy), metadata);
  return sealed_again(plain, data_key, fresh, metadata, clock, entropy);
}

std::string File::with_recipients(const Recipients& recipients, const Secret& data_key,
                                  Entropy& entropy) const {
  Recipients wanted = without_entries(recipients);
  if (wanted.threshold == 0) wanted.threshold = recipients_.threshold;
  if (wanted.groups.size() == 1 && recipients_.groups.size() == 1) {
    // Whoever could open it before keeps the bytes they had.
    for (MasterKey& key : wanted.groups.front()) {
      const auto& old = recipients_.groups.front();
      const auto found = std::find_if(old.begin(), old.end(), [&](const MasterKey& o) {
        return o.kind == key.kind && o.id == key.id;
      });
      if (found != old.end()) key.entry = found->entry;
    }
  }
  Value metadata = metadata_;
  write_recipients(wrapped(std::move(wanted), data_key, entropy), metadata);
  return with_metadata(metadata);
}

std::string File::with_metadata(const Value& metadata) const {
  try {
    if (documents_.size() == 1 && format_ == Format::Yaml)
      return text::set_in_yaml(source_, {"sops"}, metadata);
    if (format_ == Format::Json || format_ == Format::Binary)
      return text::set_in_json(source_, {"sops"}, metadata);
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) throw;  // cannot be changed in place: written as a whole
  }
  return write(documents_, metadata);
}

}  // namespace rocca::secrets::sops
