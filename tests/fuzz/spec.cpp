// The whole way of a spec on any text: problems are told, nothing is thrown, and a spec without
// errors resolves to itself.

#include "base/error.hpp"
#include "base/files.hpp"
#include "spec/load.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static rocca::MemoryFiles files = [] {
    rocca::MemoryFiles made;
    made.make_folder("c", 0755);
    made.write("c/base.yaml", "bases: [other.yaml]\nspec: { machine: { cores: 4 } }\n", 0644);
    made.write("c/other.yaml", "bases: [base.yaml]\nspec: { talos: { version: v1.11.5 } }\n", 0644);
    made.write("c/patch.yaml", "machine: { install: { extensions: [] } }\n---\n- 1\n", 0644);
    return made;
  }();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const rocca::spec::Loaded loaded = rocca::spec::load_text(files, text, "fuzz.yaml", "c");
  loaded.diagnostics.render();
  if (loaded.diagnostics.has_errors()) return 0;
  const std::string yaml = rocca::spec::resolved_yaml(loaded.spec);
  const rocca::spec::Loaded again = rocca::spec::load_text(files, yaml, "resolved.yaml", "c");
  if (again.diagnostics.has_errors() || rocca::spec::resolved_yaml(again.spec) != yaml)
    std::abort();
  return 0;
}
