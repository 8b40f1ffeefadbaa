#include "adopt/patches.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "talosconfig/merge.hpp"
#include "talosconfig/secrecy.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace rocca::adopt {

namespace {

using talos::ConfigDocument;
using text::Value;

constexpr std::string_view main_document = "v1alpha1";

bool is_header(std::string_view key) {
  return key == "apiVersion" || key == "kind" || key == "name";
}

const ConfigDocument* find(const std::vector<ConfigDocument>& config, const std::string& id) {
  for (const ConfigDocument& document : config)
    if (document.id() == id) return &document;
  return nullptr;
}

/// Every key on either side, in the order in which they stand.
std::vector<std::string> keys_of(const Value* a, const Value* b) {
  std::vector<std::string> keys;
  for (const Value* side : {a, b})
    if (side != nullptr)
      for (const text::Entry& entry : side->entries())
        if (std::find(keys.begin(), keys.end(), entry.key) == keys.end()) keys.push_back(entry.key);
  return keys;
}

void compare(const Value* before, const Value* after, const std::string& document,
             const text::Path& path, std::vector<PatchStep>& steps) {
  if (before != nullptr && after != nullptr && *before == *after) return;
  if (after == nullptr) {
    steps.push_back({document, path, true, std::nullopt,
                     before == nullptr ? std::nullopt : std::optional{*before}});
    return;
  }
  const bool both_maps = after->is_map() && (before == nullptr || before->is_map());
  if (both_maps && (before != nullptr || after->size() > 0)) {
    for (const std::string& key : keys_of(before, after)) {
      if (path.empty() && document != main_document && is_header(key)) continue;
      text::Path deeper = path;
      deeper.push_back(key);
      compare(before == nullptr ? nullptr : before->find(key), after->find(key), document, deeper,
              steps);
    }
    return;
  }
  // Merging adds to a list; what was in it must go first.
  steps.push_back({document, path, before != nullptr && !after->is_scalar(), *after});
}

std::vector<PatchStep> compare(const std::vector<ConfigDocument>& before,
                               const std::vector<ConfigDocument>& after) {
  std::vector<PatchStep> steps;
  for (const ConfigDocument& document : after) {
    const ConfigDocument* old = find(before, document.id());
    if (old != nullptr || document.type == nullptr) {
      compare(old == nullptr ? nullptr : &old->value, &document.value, document.id(), {}, steps);
      continue;
    }
    Value body = document.value;
    for (const char* key : {"apiVersion", "kind", "name"}) body.erase(key);
    steps.push_back({document.id(), {}, false, std::move(body)});
  }
  for (const ConfigDocument& document : before)
    if (document.type != nullptr && find(after, document.id()) == nullptr)
      steps.push_back({document.id(), {}, true, std::nullopt, document.value});
  return steps;
}

std::vector<ConfigDocument> taken(std::vector<ConfigDocument> config,
                                  const std::vector<PatchStep>& steps, unsigned minor) {
  for (Value& document : patch_documents(steps)) {
    talos::ConfigPatch patch;
    patch.name = "what runs";
    patch.documents.push_back(std::move(document));
    config = talos::merged(std::move(config), patch, minor);
  }
  return config;
}

std::string path_text(const PatchStep& step) {
  std::string text = step.document == main_document ? "" : step.document;
  for (const std::string& key : step.path) text += (text.empty() ? "" : ".") + key;
  return text;
}

/// A document of a patch: who it is about, and nothing else yet.
Value header_of(const std::string& document) {
  Value header = Value::map();
  if (document == main_document) return header;
  const std::vector<std::string> parts = split(document, '/');
  header.set("apiVersion", Value::string(parts[0]));
  header.set("kind", Value::string(parts.size() > 1 ? parts[1] : ""));
  if (parts.size() > 2) {
    std::string name = parts[2];
    for (std::size_t i = 3; i < parts.size(); ++i) name += "/" + parts[i];
    header.set("name", Value::string(std::move(name)));
  }
  return header;
}

Value removal() {
  Value value = Value::map();
  value.set("$patch", Value::string("delete"));
  return value;
}

Value& document_in(std::vector<std::pair<std::string, Value>>& documents, const std::string& id) {
  for (auto& [name, document] : documents)
    if (name == id) return document;
  documents.emplace_back(id, header_of(id));
  return documents.back().second;
}

std::string key_of(const PatchStep& step) {
  return fmt::format("{}\n{}\n{}\n{}", step.document, join(step.path, "\n"), step.remove,
                     step.value ? text::emit_json(*step.value) : "");
}

bool names_one_of(const std::optional<Value>& value, const std::set<std::string>& words) {
  if (!value) return false;
  const std::string text = to_lower(text::emit_json(*value));
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return !word.empty() && text.find(to_lower(word)) != std::string::npos;
  });
}

bool names_its_own(const PatchStep& step, const NodeSteps& node) {
  return step.own || names_one_of(step.value, node.own);
}

}  // namespace

std::vector<text::Value> patch_documents(const std::vector<PatchStep>& steps) {
  std::vector<std::pair<std::string, Value>> gone, come;
  for (const PatchStep& step : steps) {
    if (step.remove) {
      Value& document = document_in(gone, step.document);
      if (step.path.empty())
        document.set("$patch", Value::string("delete"));
      else
        text::set_in(document, step.path, removal());
    }
    if (!step.value) continue;
    Value& document = document_in(come, step.document);
    if (step.path.empty())
      for (const text::Entry& entry : step.value->entries()) document.set(entry.key, entry.value);
    else
      text::set_in(document, step.path, *step.value);
  }
  std::vector<Value> documents;
  for (auto* side : {&gone, &come})
    for (auto& [id, document] : *side) documents.push_back(std::move(document));
  return documents;
}

Difference derive_patch(const std::vector<ConfigDocument>& rendered,
                        const std::vector<ConfigDocument>& active, unsigned minor) {
  Difference difference;
  difference.steps = compare(rendered, active);
  // What a merge does with a value is Talos's business: what did not come out as it should goes
  // first and comes then.
  for (int round = 0; round < 2; ++round) {
    std::vector<PatchStep> left;
    try {
      left = compare(taken(rendered, difference.steps, minor), active);
    } catch (const Error& error) {
      difference.unsaid.push_back(error.message());
      return difference;
    }
    if (left.empty()) return difference;
    for (PatchStep& step : left) {
      const auto same =
          std::find_if(difference.steps.begin(), difference.steps.end(), [&](const PatchStep& one) {
            return one.document == step.document && one.path == step.path;
          });
      if (same != difference.steps.end())
        same->remove = true;
      else
        difference.steps.push_back(std::move(step));
    }
  }
  for (const PatchStep& step : compare(taken(rendered, difference.steps, minor), active))
    difference.unsaid.push_back(path_text(step));
  return difference;
}

Levels assign(const std::vector<NodeSteps>& nodes) {
  std::map<std::string, std::set<std::string>> who;  // key → names
  for (const NodeSteps& node : nodes)
    for (const PatchStep& step : node.steps) who[key_of(step)].insert(node.name);
  Levels levels;
  std::set<std::string> placed;  // level and key
  for (const NodeSteps& node : nodes) {
    const bool named =
        std::any_of(node.steps.begin(), node.steps.end(),
                    [&](const PatchStep& step) { return names_its_own(step, node); });
    const auto is_renaming = [&](const PatchStep& step) {
      return named && !step.value && names_one_of(step.gone, node.own);
    };
    const bool renamed = std::any_of(node.steps.begin(), node.steps.end(), is_renaming);
    for (const PatchStep& step : node.steps) {
      const std::string key = key_of(step);
      const std::set<std::string>& have = who[key];
      // Beside stableHostname Talos takes no HostnameConfig, and that is what the next node gets.
      const bool its_own = is_renaming(step) ||
                           (renamed && join(step.path, ".") == "machine.features.stableHostname");
      const bool installer = node.own_image && join(step.path, ".") == "machine.install.image";
      const auto shared = [&](const std::function<bool(const NodeSteps&)>& among) {
        if (its_own) return false;
        std::size_t count = 0;
        for (const NodeSteps& other : nodes)
          if (among(other)) {
            if (!have.contains(other.name)) return false;
            ++count;
          }
        return count > 1 || (count == 1 && !names_its_own(step, node));
      };
      std::string level;
      std::vector<PatchStep>* to = nullptr;
      if (!installer && shared([](const NodeSteps&) { return true; })) {
        level = "all";
        to = &levels.all;
      } else if (!installer && shared([&](const NodeSteps& other) {
                   return other.control_plane == node.control_plane;
                 })) {
        level = node.control_plane ? "controlplane" : "worker";
        to = node.control_plane ? &levels.controlplane : &levels.worker;
      } else if (!node.pool.empty() &&
                 shared([&](const NodeSteps& other) { return other.pool == node.pool; })) {
        level = "pool " + node.pool;
        to = &levels.pools[node.pool];
      } else {
        level = "node " + node.name;
        to = &levels.nodes[node.name];
      }
      if (placed.insert(level + "\n" + key).second) to->push_back(step);
    }
  }
  return levels;
}

void mark_own(PatchStep& step, const std::set<std::string>& own) {
  step.own = names_one_of(step.value, own);
}

std::vector<Value> mask_active(const std::vector<ConfigDocument>& active,
                               const std::vector<ConfigDocument>& rendered, unsigned minor) {
  return talos::mask_both("", active, rendered, minor, {}).before;
}

void SecretShelf::take_from(PatchStep& step, const std::vector<ConfigDocument>& active,
                            const std::vector<Value>& masked) {
  if (!step.value) return;
  const ConfigDocument* document = find(active, step.document);
  if (document == nullptr) return;
  const Value* shown = &document->value;
  const Value* hidden = &masked.at(static_cast<std::size_t>(document - active.data()));
  for (const std::string& key : step.path) {
    shown = shown == nullptr ? nullptr : shown->find(key);
    hidden = hidden == nullptr ? nullptr : hidden->find(key);
  }
  std::string name = step.path.empty() ? document->kind() : "";
  for (const std::string& key : step.path) name += (name.empty() ? "" : "-") + key;
  if (shown != nullptr && hidden != nullptr) walk(*step.value, *shown, *hidden, name);
}

void SecretShelf::walk(Value& value, const Value& clear, const Value& masked,
                       const std::string& name) {
  if (value.is_map()) {
    for (text::Entry& entry : value.entries()) {
      const Value* shown = clear.find(entry.key);
      const Value* hidden = masked.find(entry.key);
      if (shown != nullptr && hidden != nullptr)
        walk(entry.value, *shown, *hidden, name + "-" + entry.key);
    }
  } else if (value.is_list()) {
    const std::size_t size = std::min(clear.size(), masked.size());
    for (std::size_t i = 0; i < value.items().size() && i < size; ++i)
      walk(value.items()[i], clear.items()[i], masked.items()[i], fmt::format("{}-{}", name, i));
  } else if (!(clear == masked)) {
    Value reference = Value::map();
    reference.set("secret", Value::string(name_of(value.text(), name)));
    value.wipe();
    value = std::move(reference);
  }
}

std::string SecretShelf::name_of(const std::string& text, const std::string& wanted) {
  for (const auto& [name, secret] : secrets_)
    if (secret.reveal() == text) return name;
  std::string clean = "adopted.";
  for (const char c : to_lower(wanted))
    clean += (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
  std::string name = clean;
  for (unsigned number = 2; secrets_.contains(name); ++number)
    name = fmt::format("{}-{}", clean, number);
  secrets_.emplace(name, Secret{text});
  return name;
}

}  // namespace rocca::adopt
