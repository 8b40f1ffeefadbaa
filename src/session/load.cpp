#include "session/load.hpp"

#include "talosconfig/patch_check.hpp"

namespace rocca::session {

namespace {

spec::Loaded with_checked_patches(spec::Loaded loaded) {
  if (!loaded.diagnostics.has_errors()) talos::check_patches(loaded.spec, loaded.diagnostics);
  return loaded;
}

}  // namespace

spec::Loaded load(Files& files, const SpecSource& source) {
  return with_checked_patches(spec::load_text(files, source.text, source.name, source.folder));
}

spec::Loaded load_file(Files& files, const std::string& path) {
  return with_checked_patches(spec::load(files, path));
}

}  // namespace rocca::session
