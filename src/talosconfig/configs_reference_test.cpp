#include "base/error.hpp"
#include "secrets/bundle.hpp"
#include "support/reference.hpp"
#include "talosconfig/render.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

#include <iostream>
#include <map>

namespace rocca::talos {
namespace {

using text::Value;

// Recorded runs that have nothing to do with what is rendered.
const std::map<std::string, std::string> not_ours{
    {"error-bad-output-type", "a flag of talosctl's, about which files it writes"},
    {"odd-bad-kubernetes-version", "we hold versions as versions: `abc` never gets here"},
};

const std::string folder = "talos/configs/";

struct Options {
  ConfigInput input;
  std::vector<ConfigPatch> control_plane;
  std::vector<ConfigPatch> worker;
  bool unknown = false;  // a flag that this version of the tool does not have
};

/// What `talosctl gen config` is told, as our input.
Options options_of(const std::vector<std::string>& args, const Version& tool) {
  Options out;
  ConfigInput& input = out.input;
  input.cluster = args.at(2);
  input.endpoint = args.at(3);
  input.install_disk = "/dev/sda";
  input.installer = "ghcr.io/siderolabs/installer:v" + to_string(tool);
  input.talos = Version{1, tool.minor(), 0};
  for (std::size_t i = 4; i < args.size(); ++i) {
    std::string flag = args[i];
    std::string value;
    if (const auto equals = flag.find('='); equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag = flag.substr(0, equals);
    } else if (i + 1 < args.size() && !args[i + 1].starts_with("--")) {
      value = args[++i];
    }
    if (flag == "--talos-version") {
      const auto version = Version::parse_loose(value);
      if (!version || value.find('.') == std::string::npos)
        throw Error(Fault::Usage, "no version: " + value);
      // A tool that is older than the contract asked for writes its own newest form.
      input.talos = Version{1, std::min(version->minor(), tool.minor()), 0};
    } else if (flag == "--kubernetes-version") {
      input.kubernetes = value.starts_with('v') ? value.substr(1) : value;
    } else if (flag == "--install-image") {
      input.installer = value;
    } else if (flag == "--install-disk") {
      input.install_disk = value;
    } else if (flag == "--additional-sans") {
      std::size_t from = 0;
      while (from <= value.size()) {
        const auto comma = std::min(value.find(',', from), value.size());
        input.cert_sans.push_back(value.substr(from, comma - from));
        from = comma + 1;
      }
    } else if (flag == "--dns-domain") {
      input.dns_domain = value;
    } else if (flag == "--with-cluster-discovery") {
      input.discovery = value != "false";
    } else if (flag == "--with-kubespan") {
      input.kubespan = value != "false";
    } else if (flag == "--registry-mirror") {
      const auto equals = value.find('=');
      input.mirrors.push_back({value.substr(0, equals), {value.substr(equals + 1)}});
    } else if (flag == "--config-patch") {
      input.patches.push_back(read_patch(value, "patch"));
    } else if (flag == "--config-patch-control-plane") {
      out.control_plane.push_back(read_patch(value, "patch"));
    } else if (flag == "--config-patch-worker") {
      out.worker.push_back(read_patch(value, "patch"));
    } else if (flag == "--persist") {
      out.unknown = true;
    }
  }
  return out;
}

secrets::Bundle recorded_bundle() {
  Diagnostics problems;
  auto bundle = secrets::read_bundle(test::read_file(test::reference_path(folder + "secrets.yaml")),
                                     "secrets.yaml", problems);
  EXPECT_TRUE(bundle) << problems.render();
  return *bundle;
}

/// A tool's own default for Kubernetes is no business of ours.
std::string kubernetes_of(const std::string& config) {
  const std::string mark = "siderolabs/kubelet:v";
  const auto at = config.find(mark) + mark.size();
  return config.substr(at, config.find('\n', at) - at);
}

struct Counts {
  std::size_t bytes = 0;
  std::size_t meaning = 0;
  std::size_t refused = 0;
  std::size_t too_old = 0;
};

void compare(const std::string& theirs, Options options, bool control_plane, Counts& counts,
             bool plain) {
  test::count_case();
  ConfigInput& input = options.input;
  input.control_plane = control_plane;
  if (input.kubernetes.empty()) input.kubernetes = kubernetes_of(theirs);
  for (const ConfigPatch& patch : control_plane ? options.control_plane : options.worker)
    input.patches.push_back(patch);
  const std::string ours{render_config(input).text.reveal()};
  if (ours == theirs) {
    ++counts.bytes;
    return;
  }
  EXPECT_FALSE(plain) << "not the same bytes";
  EXPECT_EQ(text::parse_yaml_stream(ours, "ours"), text::parse_yaml_stream(theirs, "theirs"))
      << "ours:\n"
      << ours << "theirs:\n"
      << theirs;
  ++counts.meaning;
}

TEST(Configs, HaveTheMeaningOfWhatTalosGenerates) {
  const std::string index = test::reference_path(folder + "index.json");
  const Value recorded = text::parse_json(test::read_file(index), index);
  const secrets::Bundle bundle = recorded_bundle();
  Counts counts;
  for (const Value& entry : recorded.items()) {
    const std::string name = entry.find("name")->text();
    if (not_ours.contains(name)) continue;
    std::vector<std::string> args;
    for (const Value& arg : entry.find("args")->items()) args.push_back(arg.text());
    for (const Value& result : entry.find("results")->items()) {
      for (const Value& tool : result.find("talosctl")->items()) {
        SCOPED_TRACE(name + " by " + tool.text());
        if (result.find("exit")->as_int() != 0) {
          test::count_case();
          ++counts.refused;
          EXPECT_THROW(
              {
                Options options = options_of(args, *Version::parse(tool.text()));
                if (options.unknown) throw Error(Fault::Usage, "a flag that is gone");
                options.input.bundle = bundle;
                render_config(options.input);
              },
              Error);
          continue;
        }
        Options options = options_of(args, *Version::parse(tool.text()));
        options.input.bundle = bundle;
        if (options.input.talos.minor() < oldest_minor) {
          // Contracts of versions that rocca does not support are refused by name.
          test::count_case();
          ++counts.too_old;
          EXPECT_THROW(render_config(options.input), Error);
          continue;
        }
        const bool plain = name.find("plain") != std::string::npos;
        for (const bool control_plane : {true, false}) {
          const Value* file = result.find(control_plane ? "controlplane" : "worker");
          compare(test::read_file(test::reference_path(folder + file->text())), options,
                  control_plane, counts, plain);
        }
      }
    }
  }
  std::cout << counts.bytes << " with the same bytes, " << counts.meaning
            << " with the same meaning, " << counts.refused << " refused alike, " << counts.too_old
            << " older than what we support\n";
}

}  // namespace
}  // namespace rocca::talos
