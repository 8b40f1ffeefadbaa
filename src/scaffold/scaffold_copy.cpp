#include "base/error.hpp"
#include "base/strings.hpp"
#include "scaffold/scaffold_parts.hpp"
#include "spec/load.hpp"
#include "spec/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace rocca::spec {

namespace {

/// Replaces places of one text, last first, so that earlier places stay right.
class Splice {
 public:
  explicit Splice(std::string text) : text_(std::move(text)) {}
  void replace(const Tree& tree, std::string with) {
    const bool quoted = text_[tree.begin] == '"' || text_[tree.begin] == '\'';
    changes_[tree.begin] = {tree.end, quoted ? "\"" + with + "\"" : std::move(with)};
  }
  std::string finish() const {
    std::string text = text_;
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change)
      text.replace(change->first, change->second.first - change->first, change->second.second);
    return text;
  }

 private:
  std::string text_;
  std::map<std::size_t, std::pair<std::size_t, std::string>> changes_;
};

/// `blue` in `clusters/blue` or `blue.k8s.home`, but not in `bluebird`.
std::string renamed(const std::string& text, const std::string& from, const std::string& to) {
  std::string result;
  std::size_t at = 0;
  const auto inside = [&](std::size_t index) {
    const auto c = static_cast<unsigned char>(text[index]);
    return std::isalnum(c) != 0;
  };
  while (at < text.size()) {
    const std::size_t found = text.find(from, at);
    if (found == std::string::npos) break;
    const bool whole = (found == 0 || !inside(found - 1)) &&
                       (found + from.size() == text.size() || !inside(found + from.size()));
    result += text.substr(at, found - at) + (whole ? to : from);
    at = found + from.size();
  }
  return at < text.size() ? result + text.substr(at) : result;
}

class Copier {
 public:
  Copier(Files& files, std::string name, const std::string& from, std::string text,
         const Spec& spec)
      : files_(files),
        name_(std::move(name)),
        from_(from),
        text_(std::move(text)),
        spec_(spec),
        splice_(text_) {}

  std::string run(const std::vector<std::string>& others, std::vector<std::string>& notes) {
    claim(spec_, own_);
    for (const std::string& other : others) {
      const Loaded loaded = load(files_, other);
      claim(loaded.spec, taken_);
    }
    claim(spec_, taken_);
    if (spec_.network.gateway)
      taken_.addresses.emplace_back(**spec_.network.gateway, **spec_.network.gateway);
    for (const auto& server : spec_.network.nameservers)
      taken_.addresses.emplace_back(*server, *server);
    shift_ = address_shift();
    vmid_shift_ = vmid_shift();
    Findings findings;
    findings.add_file(from_, text_);
    const TreePtr tree = parse_into(text_, 0, "yaml-syntax", findings);
    edit(*tree, "");
    require_all_moved();
    if (spec_.kubernetes.endpoint && spec_.kubernetes.endpoint->host) {
      const std::string& host = **spec_.kubernetes.endpoint->host;
      if (renamed(host, spec_.name.value, name_) == host)
        notes.push_back(fmt::format(
            "kubernetes.endpoint.host is still {}: give the new cluster its own", host));
    }
    require_own_state();
    note_patches(notes);
    if (vmid_shift_ != 0) notes.push_back(fmt::format("VM ids were raised by {}", vmid_shift_));
    return rename_comments(splice_.finish());
  }

 private:
  // What is commented out today is used tomorrow: a path with the other cluster's name would then
  // be shared.
  std::string rename_comments(const std::string& text) const {
    std::vector<std::string> lines = split(text, '\n');
    for (std::string& line : lines)
      if (trim(line).starts_with('#')) line = renamed(line, spec_.name.value, name_);
    return join(lines, "\n");
  }

  std::uint64_t address_shift() const {
    if (own_.addresses.empty()) return 0;
    IpAddress low = own_.addresses.front().first();
    IpAddress high = own_.addresses.front().last();
    for (const AddressRange& range : own_.addresses) {
      if (range.first().family() != low.family()) continue;
      low = std::min(low, range.first());
      high = std::max(high, range.last());
    }
    // Whole tens: 10.0.0.11 becomes 10.0.0.31, which people find again.
    const std::uint64_t span = high.minus(low).value_or(0) + 1;
    const std::uint64_t step = (span + 9) / 10 * 10;
    for (std::uint64_t shift = step; shift <= step * 4096; shift += step)
      if (fits(shift)) return shift;
    throw Error(Fault::Conflict,
                fmt::format("the subnet has no room for another block of {} addresses", span))
        .hint("give the new cluster a subnet of its own: `rocca new NAME` without --from");
  }

  bool fits(std::uint64_t shift) const {
    for (const AddressRange& range : own_.addresses) {
      const auto first = range.first().plus(shift);
      const auto last = range.last().plus(shift);
      if (!first || !last) return false;
      if (spec_.network.subnet && spec_.network.subnet->value.contains(range.first()) &&
          (!spec_.network.subnet->value.usable(*first) ||
           !spec_.network.subnet->value.usable(*last)))
        return false;
      const AddressRange moved(*first, *last);
      for (const AddressRange& other : taken_.addresses)
        if (moved.overlaps(other)) return false;
    }
    return true;
  }

  std::int64_t vmid_shift() const {
    if (own_.vmids.empty()) return 0;
    for (std::int64_t shift = 100;; shift += 100) {
      const bool free = std::none_of(own_.vmids.begin(), own_.vmids.end(), [&](std::int64_t id) {
        return taken_.vmids.contains(id + shift);
      });
      if (free) return shift;
    }
  }

  void edit(const Tree& tree, const std::string& path) {
    for (const Member& member : tree.members) {
      const std::string here = path.empty() ? member.key : path + "." + member.key;
      if (member.value->is_scalar())
        edit_scalar(*member.value, member.key, here);
      else if (member.key == "existing" && here.starts_with("spec.nodes."))
        splice_.replace(*member.value, "true");
      else
        edit(*member.value, here);
    }
    for (const TreePtr& item : tree.items) {
      if (item->is_scalar())
        edit_scalar(*item, "", path);
      else
        edit(*item, path);
    }
  }

  void edit_scalar(const Tree& scalar, const std::string& key, const std::string& path) {
    if (path == "metadata.name") return splice_.replace(scalar, name_);
    const bool address = (path.starts_with("spec.nodes.") && key == "address") ||
                         path == "spec.kubernetes.endpoint.vip";
    if (address) {
      if (const auto ip = IpAddress::parse(scalar.text)) move(scalar, AddressRange(*ip, *ip));
    } else if (path.starts_with("spec.pools.") && path.ends_with(".addresses")) {
      if (const auto range = AddressRange::parse(scalar.text)) move(scalar, *range);
    } else if (key == "vmid") {
      if (const auto id = parse_int(scalar.text))
        splice_.replace(scalar, std::to_string(*id + vmid_shift_));
    } else if (key == "mac") {
      if (auto mac = MacAddress::parse(scalar.text)) splice_.replace(scalar, free_mac(*mac));
    } else if (names_a_place(path)) {
      const std::string text = renamed(scalar.text, spec_.name.value, name_);
      if (text != scalar.text) splice_.replace(scalar, text);
    }
  }

  static bool names_a_place(const std::string& path) {
    for (const char* section : {"spec.state.", "spec.backup.", "spec.handover.", "spec.secrets.",
                                "spec.kubernetes.endpoint.host", "spec.kubernetes.certSANs"})
      if (path.starts_with(section))
        return path.find(".secret") == std::string::npos || path.starts_with("spec.secrets.");
    return false;
  }

  void move(const Tree& scalar, const AddressRange& range) {
    const AddressRange moved(*range.first().plus(shift_), *range.last().plus(shift_));
    splice_.replace(scalar, to_string(moved));
  }

  std::string free_mac(const MacAddress& mac) {
    auto bytes = mac.bytes();
    MacAddress next = mac;
    do {
      bytes[4] = static_cast<std::uint8_t>(bytes[4] + 1);
      if (bytes[4] == 0) bytes[3] = static_cast<std::uint8_t>(bytes[3] + 1);
      next = MacAddress(bytes);
    } while (taken_.macs.contains(next));
    taken_.macs.insert(next);
    return to_string(next);
  }

  // A patch is Talos's own language: nobody here knows which of its words are names or addresses,
  // so what looks like the other cluster's is told and left alone.
  void note_patches(std::vector<std::string>& notes) const {
    std::set<const Patch*> seen;
    for (const Node& node : spec_.nodes)
      for (const auto& patch : node.patches)
        if (seen.insert(patch.get()).second)
          for (const TreePtr& tree : patch->trees) note_patch(*tree, notes);
  }

  void note_patch(const Tree& tree, std::vector<std::string>& notes) const {
    if (tree.is_scalar() && belongs_to_the_other(tree.text)) {
      std::string note =
          fmt::format("{}: `{}` in a patch is still {}'s: look at it in the copy",
                      to_string(spec_.position(tree.where)), tree.text, spec_.name.value);
      if (std::find(notes.begin(), notes.end(), note) == notes.end())
        notes.push_back(std::move(note));
    }
    for (const Member& member : tree.members) note_patch(*member.value, notes);
    for (const TreePtr& item : tree.items) note_patch(*item, notes);
  }

  bool belongs_to_the_other(const std::string& text) const {
    if (text.find('\n') != std::string::npos) return false;  // a file's content; too much to show
    if (renamed(text, spec_.name.value, name_) != text) return true;
    std::string words = text;
    for (char& c : words)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != ':') c = ' ';
    for (const std::string& word : split(words, ' ')) {
      if (const auto mac = MacAddress::parse(word); mac && own_.macs.contains(*mac)) return true;
      // 10.0.0.11, or 10.0.0.11:6443
      auto address = IpAddress::parse(word);
      if (!address) address = IpAddress::parse(word.substr(0, word.rfind(':')));
      if (!address) continue;
      for (const AddressRange& range : own_.addresses)
        if (range.contains(*address)) return true;
    }
    return false;
  }

  // Two clusters that write one state destroy each other's.
  void require_own_state() const {
    std::string place;
    if (const auto* bucket = std::get_if<S3Place>(&spec_.state.place)) place = *bucket->key;
    if (const auto* http = std::get_if<HttpState>(&spec_.state.place)) place = *http->address;
    if (!place.empty() && renamed(place, spec_.name.value, name_) == place)
      throw Error(Fault::Usage, fmt::format("both clusters would keep their state in {}", place))
          .hint(fmt::format("put the cluster's name into the state's place in {}", from_));
  }

  // What stands in a base is shared by both clusters and cannot be changed for one of them.
  void require_all_moved() const {
    const auto own = [&](const Where& where, const std::string& what) {
      if (where.written() && where.file != 0)
        throw Error(Fault::Usage, fmt::format("{} stands in {}, which both clusters would share",
                                              what, to_string(spec_.position(where))))
            .hint(fmt::format("write it in {} first; a base is for what clusters have in common",
                              from_));
    };
    own(spec_.name.where, "the cluster's name");
    for (const Node& node : spec_.nodes) {
      if (node.address) own(node.address->where, fmt::format("the address of {}", node.name));
      if (node.machine && node.machine->vmid)
        own(node.machine->vmid->where, fmt::format("the VM id of {}", node.name));
    }
    if (spec_.kubernetes.endpoint && spec_.kubernetes.endpoint->vip)
      own(spec_.kubernetes.endpoint->vip->address.where, "the VIP");
  }

  Files& files_;
  std::string name_;
  std::string from_;
  std::string text_;
  const Spec& spec_;
  Splice splice_;
  Claims own_;
  Claims taken_;
  std::uint64_t shift_ = 0;
  std::int64_t vmid_shift_ = 0;
};

}  // namespace

std::string copied_spec(Files& files, const std::string& name, const std::string& from,
                        std::string text, const Spec& spec, const std::vector<std::string>& others,
                        std::vector<std::string>& notes) {
  return Copier(files, name, from, std::move(text), spec).run(others, notes);
}

}  // namespace rocca::spec
