#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "base/visible.hpp"
#include "cli/cluster_secrets.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "text/value.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::cli {

namespace {

struct Row {
  std::string file;
  std::string name;
  std::string kind;
  std::optional<Instant> expires;
};

/// What a value looks like, without telling it.
std::string kind_of(const text::Value& value) {
  const std::string& text = value.text();
  if (value.kind() != text::Kind::String) return text::to_string(value.kind());
  if (text.empty()) return "empty";
  if (text.find("-----BEGIN CERTIFICATE-----") != std::string::npos) return "certificate";
  if (text.find("PRIVATE KEY-----") != std::string::npos) return "private key";
  return "text";
}

void add_rows(const std::string& file, const std::string& name, const text::Value& value,
              const text::Value* bundle, std::vector<Row>& rows) {
  if (&value == bundle) return;
  if (value.is_map()) {
    for (const text::Entry& entry : value.entries()) {
      const std::string& key = entry.key;
      add_rows(file, name.empty() ? key : name + "." + key, entry.value, bundle, rows);
    }
  } else if (value.is_list()) {
    std::size_t index = 0;
    for (const text::Value& item : value.items())
      add_rows(file, fmt::format("{}.{}", name, index++), item, bundle, rows);
  } else {
    rows.push_back({file, name, kind_of(value), std::nullopt});
  }
}

void add_bundle(Context& context, const std::string& file, const text::Value& value,
                const std::string& prefix, std::vector<Row>& rows) {
  Diagnostics problems;
  const auto bundle = secrets::read_bundle(value, file, problems);
  context.err << problems.render();
  problems.throw_if_errors(file);
  for (const secrets::BundleItem& item : secrets::describe(*bundle))
    rows.push_back({file, prefix + item.name, item.kind, item.expires});
}

std::string for_people(const std::vector<Row>& rows) {
  std::size_t name_width = 0, kind_width = 0;
  for (const Row& row : rows) {
    name_width = std::max(name_width, visible(row.name).size());
    kind_width = std::max(kind_width, row.kind.size());
  }
  std::string text, file;
  for (const Row& row : rows) {
    if (row.file != file) text += (file.empty() ? "" : "\n") + visible(row.file) + "\n";
    file = row.file;
    std::string line =
        fmt::format("  {:<{}}  {:<{}}", visible(row.name), name_width, row.kind, kind_width);
    if (row.expires) line += "  until " + to_string(*row.expires).substr(0, 10);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

text::Value to_value(const std::vector<Row>& rows) {
  text::Value list = text::Value::list();
  for (const Row& row : rows) {
    text::Value item = text::Value::map();
    item.set("file", text::Value::string(row.file));
    item.set("name", text::Value::string(row.name));
    item.set("kind", text::Value::string(row.kind));
    if (row.expires) item.set("expires", text::Value::string(to_string(*row.expires)));
    list.append(std::move(item));
  }
  text::Value data = text::Value::map();
  data.set("secrets", std::move(list));
  return data;
}

}  // namespace

int show_cluster_secrets(Context& context, const Invocation& invocation,
                         const std::optional<std::string>& cluster) {
  const spec::Spec spec = load_cluster(context, cluster);
  std::vector<Row> rows;
  std::vector<std::string> searched;
  for (const std::string& path : session::secret_files(spec)) {
    searched.push_back(path);
    const session::SecretTree tree = session::open_secrets(context.files, *keys_of(context), path);
    if (tree == nullptr) continue;
    const text::Value& root = *tree;
    const std::string shown =
        path.starts_with(context.folder + "/") ? path.substr(context.folder.size() + 1) : path;
    const text::Value* bundle = session::find_bundle(root);
    if (bundle != nullptr)
      add_bundle(context, shown, *bundle,
                 bundle == &root ? std::string{} : std::string{session::bundle_key} + ".", rows);
    add_rows(shown, "", root, bundle, rows);
  }
  if (rows.empty()) {
    std::string message = "the cluster has no secrets. Looked for:";
    for (const std::string& path : searched) message += "\n  " + path;
    throw Error(Fault::NotFound, std::move(message));
  }
  print(context, invocation, to_value(rows), for_people(rows));
  return 0;
}

}  // namespace rocca::cli
