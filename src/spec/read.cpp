#include "spec/read.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/fields.hpp"
#include "spec/validation/check.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::spec {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return "";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string path_below(const std::string& folder, const std::string& path) {
  const bool absolute = path.starts_with('/');
  const std::string joined = absolute || folder.empty() ? path : folder + "/" + path;
  std::vector<std::string> parts;
  for (const std::string& part : split(joined, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == ".." && !parts.empty() && parts.back() != "..")
      parts.pop_back();
    else if (part != ".." || !joined.starts_with('/'))
      parts.push_back(part);
  }
  const std::string plain = join(parts, "/");
  if (joined.starts_with('/')) return "/" + plain;
  return plain.empty() ? "." : plain;
}

namespace {

// Nothing of a broken file is understood, so what stands behind a word such as `token` on the line
// that will be shown is masked as a whole.
void mask_line(std::string_view text, const Where& where, Findings& findings) {
  std::size_t begin = 0;
  for (std::uint32_t line = 1; line < where.line && begin != std::string_view::npos; ++line) {
    begin = text.find('\n', begin);
    if (begin != std::string_view::npos) ++begin;
  }
  if (begin >= text.size()) return;
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  const std::string_view line = text.substr(begin, end - begin);
  if (!sounds_secret(line) && !looks_like_secret(trim(line))) return;
  const std::size_t colon = line.find(':');
  findings.mask(where.file, begin + (colon == std::string_view::npos ? 0 : colon + 1), end);
}

}  // namespace

TreePtr parse_into(std::string_view text, std::uint32_t file, std::string_view code,
                   Findings& findings) {
  const std::string& name = findings.files()[file];
  try {
    return to_tree(text::parse_yaml(text, name), file);
  } catch (const Error& error) {
    // The parser's place stands before its message: NAME:LINE:COLUMN: MESSAGE.
    std::string_view rest = error.message();
    Where where{file, 0, 0, 1};
    if (rest.starts_with(name + ":")) rest.remove_prefix(name.size() + 1);
    for (std::uint32_t* number : {&where.line, &where.column}) {
      const std::size_t colon = rest.find(':');
      const auto value = parse_uint(rest.substr(0, colon));
      if (!value || colon == std::string_view::npos) break;
      *number = static_cast<std::uint32_t>(*value);
      rest.remove_prefix(colon + 1);
    }
    mask_line(text, where, findings);
    findings.add(code, where, std::string(trim(rest)), error.hint());
    return nullptr;
  }
}

namespace {

class Reader {
 public:
  Reader(Files& files, Findings& findings, std::string folder)
      : files_(files), findings_(findings), folder_(std::move(folder)) {}

  /// `base`: the folder of the file relative to the spec's, "" for the spec itself.
  TreePtr read(std::string_view text, const std::string& name, const std::string& base,
               bool is_base) {
    const std::uint32_t file = findings_.add_file(name, std::string(text));
    const TreePtr raw = parse_into(text, file, "yaml-syntax", findings_);
    if (!raw || !right_kind(*raw, file, is_base)) return nullptr;
    way_.push_back(name);
    TreePtr below = bases(*raw, base);
    way_.pop_back();
    return merge(below, clean(raw, root(), "", base, findings_), &root());
  }

 private:
  bool right_kind(const Tree& tree, std::uint32_t file, bool is_base) {
    const Where top{file, 1, 1, 1};
    const std::string hint = "a spec begins with `apiVersion: rocca.dev/v1` and `kind: Cluster`";
    if (!tree.is_map()) {
      findings_.add("wrong-kind", top,
                    fmt::format("expected a map, found {}", text::to_string(tree.kind)), hint);
      return false;
    }
    const auto is = [&](const char* key, std::string_view wanted) {
      const TreePtr value = tree.find(key);
      if (!value) {
        if (is_base) return true;
        findings_.add("wrong-kind", top, fmt::format("there is no `{}: {}`", key, wanted), hint);
        return false;
      }
      if (value->text == wanted) return true;
      findings_.add("wrong-kind", value->where,
                    fmt::format("{} is `{}`, not {}", key, value->text, wanted), hint);
      return false;
    };
    return is("apiVersion", "rocca.dev/v1") && is("kind", "Cluster");
  }

  TreePtr bases(const Tree& raw, const std::string& base) {
    TreePtr merged;
    const TreePtr list = raw.find("bases");
    if (!list || !list->is_list()) return merged;
    for (const TreePtr& item : list->items) {
      if (item->kind != text::Kind::String || item->text.empty()) continue;  // clean() says so
      const std::string from_spec = path_below(base, item->text);
      const std::string path = path_below(folder_, from_spec);
      if (const auto seen = std::find(way_.begin(), way_.end(), path); seen != way_.end()) {
        std::vector<std::string> circle(seen, way_.end());
        circle.push_back(path);
        findings_.add("base-cycle", item->where,
                      fmt::format("this base includes itself: {}", join(circle, " → ")));
        continue;
      }
      std::optional<std::string> text;
      try {
        text = files_.find(path, text::Limits{}.size);
      } catch (const Error& error) {
        findings_.add("base-not-found", item->where, error.message());
        continue;
      }
      if (!text) {
        findings_.add("base-not-found", item->where, fmt::format("there is no file {}", path),
                      "bases are paths relative to the file that names them");
        continue;
      }
      const std::string folder = folder_of(from_spec);
      merged = merge(merged, read(*text, path, folder, true), &root());
    }
    return merged;
  }

  Files& files_;
  Findings& findings_;
  std::string folder_;
  std::vector<std::string> way_;
};

}  // namespace

TreePtr read_merged(Files& files, std::string_view text, const std::string& name,
                    const std::string& folder, Findings& findings) {
  Reader reader(files, findings, folder);
  const TreePtr merged = reader.read(text, name, "", false);
  if (!merged) return nullptr;
  return complete(merged, root(), "", Where{0, 1, 1, 1}, false, findings);
}

}  // namespace rocca::spec
