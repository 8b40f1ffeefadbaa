#include "kube/kubeconfig.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "net/http.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <memory>

namespace rocca::kube {

namespace {

using text::Value;

constexpr const char* account = "/var/run/secrets/kubernetes.io/serviceaccount/";

class Reader {
 public:
  Reader(std::string name, Files& files) : name_(std::move(name)), files_(files) {}

  [[noreturn]] void fail(const Value& at, const std::string& message,
                         const std::string& hint = "") const {
    Error error(Fault::Usage,
                fmt::format("{}:{}:{}: {}", name_, at.place().line, at.place().column, message));
    if (!hint.empty()) error.hint(hint);
    throw error;
  }

  std::string text(const Value& map, std::string_view key) const {
    const Value* value = map.find(key);
    if (value == nullptr || value->is_null()) return "";
    if (!value->is_scalar()) fail(*value, fmt::format("`{}` is no text", key));
    return value->text();
  }

  bool flag(const Value& map, std::string_view key) const {
    const Value* value = map.find(key);
    if (value == nullptr || value->is_null()) return false;
    const auto flag = value->as_bool();
    if (!flag) fail(*value, fmt::format("`{}` is neither true nor false", key));
    return *flag;
  }

  /// The entry of that name in one of the three lists.
  const Value& named(const Value& root, const char* list, const char* inside,
                     const std::string& wanted) const {
    const Value* entries = root.find(list);
    if (entries != nullptr && entries->is_list())
      for (const Value& entry : entries->items())
        if (text(entry, "name") == wanted)
          if (const Value* found = entry.find(inside); found != nullptr && found->is_map())
            return *found;
    fail(entries != nullptr ? *entries : root, fmt::format("there is no {} `{}`", inside, wanted));
  }

  /// `NAME-data` (base64) wins over `NAME`, a path.
  std::string content(const Value& map, const std::string& key) const {
    const std::string data = text(map, key + "-data");
    if (!data.empty()) {
      auto decoded = from_base64(data);
      if (!decoded) fail(*map.find(key + "-data"), fmt::format("`{}-data` is no base64", key));
      return std::move(*decoded);
    }
    const std::string path = text(map, key);
    return path.empty() ? "" : files_.get(beside(path));
  }

  std::string beside(const std::string& path) const {
    const std::size_t slash = name_.rfind('/');
    return path.starts_with('/') || slash == std::string::npos ? path
                                                               : name_.substr(0, slash + 1) + path;
  }

 private:
  std::string name_;
  Files& files_;
};

void read_cluster(const Reader& read, const Value& cluster, Access& access) {
  access.server = read.text(cluster, "server");
  while (access.server.ends_with('/')) access.server.pop_back();
  const auto url = net::Url::parse(access.server);
  if (!url) read.fail(cluster, fmt::format("`{}` is no address of a server", access.server));
  const std::string authority = read.content(cluster, "certificate-authority");
  if (read.flag(cluster, "insecure-skip-tls-verify")) {
    access.tls = net::Tls::unverified();
  } else if (!authority.empty()) {
    access.tls = net::Tls::authority(authority);
  }
  access.tls.server_name = read.text(cluster, "tls-server-name");
  if (const Value* proxy = cluster.find("proxy-url"); proxy != nullptr && !proxy->is_null())
    read.fail(*proxy, "`proxy-url` is not supported", "set HTTPS_PROXY instead");
}

void read_user(const Reader& read, const Value& user, Access& access) {
  for (const char* program : {"exec", "auth-provider"})
    if (const Value* found = user.find(program); found != nullptr && !found->is_null())
      read.fail(*found,
                fmt::format("`{}` is not supported: rocca starts no program to log in", program),
                "use a kubeconfig with a client certificate or a token");
  const std::string certificate = read.content(user, "client-certificate");
  if (!certificate.empty()) {
    auto identity = std::make_shared<net::Identity>();
    identity->certificate_pem = certificate;
    identity->key_pem = Secret::take(read.content(user, "client-key"));
    if (identity->key_pem.empty()) read.fail(user, "a client certificate without its key");
    access.tls.identity = std::move(identity);
  }
  if (const std::string file = read.text(user, "tokenFile"); !file.empty()) {
    access.token_file = read.beside(file);
  } else if (const std::string token = read.text(user, "token"); !token.empty()) {
    access.authorization = Secret("Bearer " + token);
  } else if (const std::string name = read.text(user, "username"); !name.empty()) {
    access.authorization =
        Secret("Basic " + to_base64(fmt::format("{}:{}", name, read.text(user, "password"))));
  }
  access.impersonate = read.text(user, "as");
  if (const Value* groups = user.find("as-groups"); groups != nullptr && groups->is_list())
    for (const Value& group : groups->items()) access.impersonate_groups.push_back(group.text());
}

}  // namespace

Access parse_kubeconfig(std::string_view text, const std::string& name, Files& files,
                        const std::string& context) {
  Value root = text::parse_yaml(text, name);
  const Reader read{name, files};
  if (!root.is_map()) read.fail(root, "this is no kubeconfig");
  const std::string chosen = context.empty() ? read.text(root, "current-context") : context;
  if (chosen.empty()) read.fail(root, "`current-context` is not set");
  const Value& entry = read.named(root, "contexts", "context", chosen);
  Access access;
  read_cluster(read, read.named(root, "clusters", "cluster", read.text(entry, "cluster")), access);
  read_user(read, read.named(root, "users", "user", read.text(entry, "user")), access);
  if (const std::string space = read.text(entry, "namespace"); !space.empty()) access.space = space;
  root.wipe();  // keys and tokens
  return access;
}

Access load_kubeconfig(Files& files, const std::string& path, const std::string& context) {
  std::string text = files.get(path);
  Access access = parse_kubeconfig(text, path, files, context);
  wipe(text);
  return access;
}

std::optional<Access> in_cluster(
    Files& files, const std::function<std::optional<std::string>(const std::string&)>& variable) {
  const auto host = variable("KUBERNETES_SERVICE_HOST");
  const auto port = variable("KUBERNETES_SERVICE_PORT");
  const std::string folder = account;
  if (!host || !port || !files.status(folder + "token")) return std::nullopt;
  Access access;
  const bool ipv6 = host->find(':') != std::string::npos;
  access.server = fmt::format("https://{}{}{}:{}", ipv6 ? "[" : "", *host, ipv6 ? "]" : "", *port);
  access.tls = net::Tls::authority(files.get(folder + "ca.crt"));
  access.token_file = folder + "token";
  if (const auto space = files.find(folder + "namespace")) access.space = std::string{trim(*space)};
  return access;
}

}  // namespace rocca::kube
