#include "spec/load.hpp"

#include "base/error.hpp"
#include "spec/build.hpp"
#include "spec/patches.hpp"
#include "spec/read.hpp"
#include "spec/resolve.hpp"
#include "spec/validation/findings.hpp"
#include "spec/validation/validate.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

namespace rocca::spec {

Loaded load_text(Files& files, std::string_view text, const std::string& name,
                 const std::string& folder, const LoadOptions& options) {
  Findings findings;
  Loaded loaded;
  const TreePtr merged = read_merged(files, text, name, folder, findings);
  if (merged) {
    const Resolved resolved = resolve(merged, findings);
    PatchReader patches(files, folder, findings);
    loaded.spec = build(resolved, merged, patches, findings, options.touched);
    loaded.spec.folder = folder;
    const auto lock = find_lock(files, folder);
    validate(
        {loaded.spec, findings, lock ? &*lock : nullptr, &files, options.warn_even_control_planes});
  }
  loaded.spec.files = findings.files();
  loaded.diagnostics = findings.finish();
  return loaded;
}

Loaded load(Files& files, const std::string& path, const LoadOptions& options) {
  return load_text(files, files.get(path, text::Limits{}.size), path, folder_of(path), options);
}

std::string resolved_yaml(const Spec& spec) {
  return spec.resolved ? text::emit_yaml(to_value(*spec.resolved)) : std::string();
}

}  // namespace rocca::spec
