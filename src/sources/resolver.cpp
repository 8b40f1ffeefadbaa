#include "sources/resolver.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/uuid.hpp"
#include "infisical/client.hpp"
#include "secrets/pem_cleanup.hpp"
#include "spec/plain_http.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace rocca::sources {

std::string variable_name(const std::string& key) {
  std::string name;
  for (const char c : key)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0
                ? static_cast<char>(std::toupper(static_cast<unsigned char>(c)))
                : '_';
  return name;
}

namespace {

/// `a.b.c` in a tree; a key that itself has dots wins over the path through it.
const text::Value* find_path(const text::Value& tree, std::string_view path) {
  if (const text::Value* whole = tree.find(path)) return whole;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos;
       dot = path.find('.', dot + 1))
    if (const text::Value* inner = tree.find(path.substr(0, dot)))
      if (const text::Value* found = find_path(*inner, path.substr(dot + 1))) return found;
  return nullptr;
}

std::optional<Secret> scalar_at(const text::Value& tree, const std::string& key,
                                const std::string& place) {
  const text::Value* found = find_path(tree, key);
  if (found == nullptr || found->is_null()) return std::nullopt;
  if (!found->is_scalar())
    throw Error(Fault::Usage, fmt::format("the secret {} in {} is a {}, not a text", key, place,
                                          text::to_string(found->kind())))
        .hint("name one of the values below it");
  return Secret{found->text()};
}

std::string absolute_path(const std::string& folder, const std::string& path) {
  return path.starts_with('/') || folder.empty() ? path : folder + "/" + path;
}

}  // namespace

/// One place where secrets are looked up.
class Resolver::Place {
 public:
  virtual ~Place() = default;
  virtual std::optional<Secret> find(const std::string& key) = 0;
  /// As it is named in errors: "secrets.sops.yaml", "variable ROCCA_PROXMOX_TOKEN".
  virtual std::string searched(const std::string& key) const = 0;
};

class Resolver::GivenPlace final : public Place {
 public:
  explicit GivenPlace(const std::map<std::string, Secret>& values) : values_(values) {}

  std::optional<Secret> find(const std::string& key) override {
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional{found->second};
  }
  std::string searched(const std::string& key) const override {
    return fmt::format("{} among the secrets that were given", key);
  }

 private:
  const std::map<std::string, Secret>& values_;
};

class Resolver::FilePlace final : public Place {
 public:
  FilePlace(Doors& doors, std::string path) : doors_(doors), path_(std::move(path)) {}

  std::optional<Secret> find(const std::string& key) override {
    if (!opened_) {
      tree_ = within(fmt::format("opening {}", path_), [&] { return doors_.open(path_); });
      opened_ = true;
    }
    return tree_ ? scalar_at(*tree_, key, path_) : std::nullopt;
  }
  std::string searched(const std::string& key) const override {
    return tree_ ? fmt::format("{} in {}", key, path_) : fmt::format("{} (no such file)", path_);
  }

 private:
  Doors& doors_;
  std::string path_;
  bool opened_ = false;
  std::optional<text::Value> tree_;
};

class Resolver::EnvironmentPlace final : public Place {
 public:
  EnvironmentPlace(Doors& doors, std::string prefix) : doors_(doors), prefix_(std::move(prefix)) {}

  std::optional<Secret> find(const std::string& key) override {
    const auto found = doors_.environment.find(prefix_ + variable_name(key));
    if (found == doors_.environment.end() || found->second.empty()) return std::nullopt;
    return Secret{found->second};
  }
  std::string searched(const std::string& key) const override {
    return "the variable " + prefix_ + variable_name(key);
  }

 private:
  Doors& doors_;
  std::string prefix_;
};

class Resolver::CommandPlace final : public Place {
 public:
  CommandPlace(Doors& doors, std::vector<std::string> command)
      : doors_(doors), command_(std::move(command)) {}

  std::optional<Secret> find(const std::string& key) override {
    std::vector<std::string> command = command_;
    command.push_back(key);
    if (!doors_.run)
      throw Error(Fault::Usage, fmt::format("programs cannot be run here: {}", command_.front()))
          .hint("name another source in secrets.sources");
    const Secret out = within("running " + command_.front(), [&] { return doors_.run(command); });
    const std::string_view text = trim(out.reveal());
    return text.empty() ? std::nullopt : std::optional{Secret{text}};
  }
  std::string searched(const std::string& key) const override {
    return fmt::format("the output of {} {} (empty)", join(command_, " "), key);
  }

 private:
  Doors& doors_;
  std::vector<std::string> command_;
};

class Resolver::InfisicalPlace final : public Place {
 public:
  InfisicalPlace(Resolver& resolver, spec::InfisicalSource source, bool plain_http,
                 std::stop_token stop)
      : resolver_(resolver),
        source_(std::move(source)),
        plain_http_(plain_http),
        stop_(std::move(stop)) {}

  std::optional<Secret> find(const std::string& key) override {
    return find_in(*source_.path, variable_name(key));
  }

  std::optional<Secret> find_in(const std::string& folder, const std::string& name) {
    // Its own credential cannot come from itself.
    if (asking_) return std::nullopt;
    auto cached = folders_.find(folder);
    if (cached == folders_.end()) {
      auto values = within("looking for " + searched_in(folder, name), [&] {
        const std::string& id = project();
        return client().secrets({id, *source_.environment, folder});
      });
      cached = folders_.emplace(folder, std::move(values)).first;
    }
    const auto found = cached->second.find(name);
    return found == cached->second.end() ? std::nullopt : std::optional{found->second};
  }

  std::string searched(const std::string& key) const override {
    return fmt::format("{} at {} in Infisical ({}, environment {})", variable_name(key),
                       *source_.path, *source_.host, *source_.environment);
  }
  std::string searched_in(const std::string& folder, const std::string& name) const {
    return fmt::format("{} at {} in Infisical ({}, environment {})", name, folder, *source_.host,
                       *source_.environment);
  }

 private:
  struct Asking {
    explicit Asking(bool& its_flag) : flag(its_flag) { flag = true; }
    ~Asking() { flag = false; }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;
    bool& flag;
  };

  infisical::Client& client() {
    if (client_) return *client_;
    std::map<std::string, Secret> identity;
    if (source_.auth) {
      // Also after an error: the next lookup must not take this place for an empty one.
      const Asking asking{asking_};
      identity = resolver_.get_group(**source_.auth, {"clientId", "clientSecret"},
                                     "secrets.sources.infisical.auth");
    } else {
      identity = {{"clientId", variable("INFISICAL_CLIENT_ID")},
                  {"clientSecret", variable("INFISICAL_CLIENT_SECRET")}};
    }
    const auto line = [&](const char* member) {
      return secrets::clean_line(identity.at(member).reveal(),
                                 fmt::format("the {} for Infisical", member))
          .text;
    };
    infisical::Access access{*source_.host, std::string(line("clientId").reveal()),
                             line("clientSecret"), net::Tls::system(), plain_http_};
    client_ = std::make_unique<infisical::Client>(resolver_.doors_.transport,
                                                  resolver_.doors_.clock, std::move(access), stop_);
    return *client_;
  }

  Secret variable(const std::string& name) const {
    const auto found = resolver_.doors_.environment.find(name);
    if (found == resolver_.doors_.environment.end() || found->second.empty())
      throw Error(Fault::NotFound,
                  fmt::format("Infisical at {} needs a machine identity, and {} is not set",
                              *source_.host, name))
          .hint(
              "set INFISICAL_CLIENT_ID and INFISICAL_CLIENT_SECRET, or name auth: { secret: … } in "
              "the source");
    return Secret{found->second};
  }

  /// The project's id; people write its slug.
  const std::string& project() {
    if (!project_)
      project_ =
          Uuid::parse(*source_.project) ? *source_.project : client().project_id(*source_.project);
    return *project_;
  }

  Resolver& resolver_;
  spec::InfisicalSource source_;
  bool plain_http_;
  std::stop_token stop_;
  std::optional<std::string> project_;
  bool asking_ = false;
  std::unique_ptr<infisical::Client> client_;
  std::map<std::string, std::map<std::string, Secret>> folders_;
};

Resolver::Resolver(const spec::Spec& spec, Doors doors, std::stop_token stop)
    : doors_(std::move(doors)) {
  if (doors_.given != nullptr && !doors_.given->empty())
    places_.push_back(std::make_unique<GivenPlace>(*doors_.given));
  for (const auto& file : spec.secret_files) {
    const std::string path = absolute_path(spec.folder, *file);
    if (file_.empty()) file_ = path;
    places_.push_back(std::make_unique<FilePlace>(doors_, path));
  }
  for (const spec::SecretSource& source : spec.secret_sources) {
    if (const auto* infisical = std::get_if<spec::InfisicalSource>(&source)) {
      const bool plain_http = spec::allows_plain_http(spec, infisical->host);
      places_.push_back(std::make_unique<InfisicalPlace>(*this, *infisical, plain_http, stop));
      if (!absolute_)
        absolute_ = std::make_unique<InfisicalPlace>(*this, *infisical, plain_http, stop);
    } else if (const auto* command = std::get_if<spec::CommandSource>(&source)) {
      std::vector<std::string> words;
      for (const auto& word : command->command) words.push_back(*word);
      places_.push_back(std::make_unique<CommandPlace>(doors_, std::move(words)));
    } else if (const auto* environment = std::get_if<spec::EnvironmentSource>(&source)) {
      places_.push_back(std::make_unique<EnvironmentPlace>(doors_, *environment->prefix));
    }
  }
}

Resolver::~Resolver() = default;

std::optional<Secret> Resolver::find(const spec::SecretRef& reference) {
  if (reference.from == spec::SecretRef::From::Infisical) {
    if (!absolute_)
      throw Error(
          Fault::Usage,
          fmt::format("{{ infisical: {} }} is asked for, and secrets.sources names no infisical",
                      reference.path));
    const std::size_t slash = reference.path.rfind('/');
    const std::string folder =
        slash == 0 || slash == std::string::npos ? "/" : reference.path.substr(0, slash);
    return absolute_->find_in(folder, reference.path.substr(slash + 1));
  }
  for (const auto& place : places_)
    if (auto found = place->find(reference.path)) return found;
  return std::nullopt;
}

Secret Resolver::get(const spec::SecretRef& reference, const std::string& wanted_by) {
  if (auto found = find(reference)) return std::move(*found);
  std::vector<std::string> searched;
  if (reference.from == spec::SecretRef::From::Infisical) {
    const std::size_t slash = reference.path.rfind('/');
    searched.push_back(absolute_->searched_in(slash == 0 ? "/" : reference.path.substr(0, slash),
                                              reference.path.substr(slash + 1)));
  } else {
    for (const auto& place : places_) searched.push_back(place->searched(reference.path));
  }
  std::string message =
      fmt::format("the secret {} is nowhere; {} needs it. Looked for:", reference.path, wanted_by);
  for (const std::string& place : searched) message += "\n  " + place;
  if (searched.empty()) message += "\n  nowhere: the spec names no secrets file and no source";
  // Pasted from any folder, it names the file that was looked into.
  const bool in_a_file = reference.from != spec::SecretRef::From::Infisical && !file_.empty();
  throw Error(Fault::NotFound, std::move(message))
      .hint(in_a_file ? fmt::format("rocca secrets set {} {}", file_, reference.path)
                      : "store it in one of these places");
}

Secret Resolver::get_line(const spec::SecretRef& reference, const std::string& wanted_by) {
  return secrets::clean_line(get(reference, wanted_by).reveal(), wanted_by).text;
}

std::map<std::string, Secret> Resolver::get_group(const spec::SecretRef& reference,
                                                  const std::vector<std::string>& members,
                                                  const std::string& wanted_by) {
  std::map<std::string, Secret> group;
  for (const std::string& member : members) {
    spec::SecretRef inner = reference;
    inner.path += (reference.from == spec::SecretRef::From::Key ? "." : "_") + member;
    group.emplace(member, get(inner, wanted_by));
  }
  return group;
}

}  // namespace rocca::sources
