#include "session/secret_lookup.hpp"

#include "base/error.hpp"
#include "secrets/pem_cleanup.hpp"
#include "sources/resolver.hpp"

#include <mutex>
#include <utility>
#include <vector>

namespace rocca::session {

/// A Resolver is for one thread at a time: it logs in and remembers what it opened. So each lookup
/// takes one that is idle, or makes one.
class SecretLookup::Impl {
 public:
  Impl(const spec::Spec& spec, LookupInputs inputs, std::stop_token stop)
      : inputs_(std::move(inputs)), stop_(std::move(stop)) {
    spec_.folder = spec.folder;
    spec_.secret_files = spec.secret_files;
    spec_.secret_sources = spec.secret_sources;
    spec_.resolved = spec.resolved;
  }

  template <class Body>
  auto with_resolver(Body&& body) {
    std::unique_ptr<sources::Resolver> mine;
    {
      const std::lock_guard guard{mutex_};
      if (!idle_.empty()) {
        mine = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (!mine) mine = std::make_unique<sources::Resolver>(spec_, doors(), stop_);
    // One that failed half-way (a login that was refused) is not used again.
    auto result = body(*mine);
    const std::lock_guard guard{mutex_};
    idle_.push_back(std::move(mine));
    return result;
  }

  using Key = std::pair<spec::SecretRef::From, std::string>;

  std::optional<std::optional<Secret>> remembered(const spec::SecretRef& reference) {
    const std::lock_guard guard{mutex_};
    const auto found = found_.find(Key{reference.from, reference.path});
    if (found == found_.end()) return std::nullopt;
    return found->second;
  }

  /// What counts from now on: the first answer.
  std::optional<Secret> remember(const spec::SecretRef& reference, std::optional<Secret> secret) {
    const std::lock_guard guard{mutex_};
    return found_.try_emplace(Key{reference.from, reference.path}, std::move(secret)).first->second;
  }

  void replace(const spec::SecretRef& reference, const Secret& secret) {
    const std::lock_guard guard{mutex_};
    found_.insert_or_assign(Key{reference.from, reference.path}, std::optional{secret});
  }

  SecretTree open(const std::string& path) {
    {
      const std::lock_guard guard{mutex_};
      if (const auto found = trees_.find(path); found != trees_.end()) return found->second;
    }
    SecretTree tree = open_secrets(inputs_.files, *inputs_.keys, path);
    const std::lock_guard guard{mutex_};
    return trees_.try_emplace(path, std::move(tree)).first->second;
  }

  Keys& keys() { return *inputs_.keys; }

 private:
  sources::Doors doors() {
    return {inputs_.files,
            inputs_.clock,
            inputs_.transport,
            inputs_.environment,
            [this](const std::string& path) -> std::optional<text::Value> {
              const SecretTree tree = open(path);
              return tree == nullptr ? std::nullopt : std::optional{*tree};
            },
            inputs_.run,
            &inputs_.given};
  }

  const LookupInputs inputs_;
  std::stop_token stop_;
  spec::Spec spec_;  // what it says of secrets
  std::mutex mutex_;
  std::vector<std::unique_ptr<sources::Resolver>> idle_;
  std::map<Key, std::optional<Secret>> found_;
  std::map<std::string, SecretTree> trees_;
};

SecretLookup::SecretLookup(const spec::Spec& spec, LookupInputs inputs, std::stop_token stop)
    : impl_(std::make_unique<Impl>(spec, std::move(inputs), std::move(stop))) {}

SecretLookup::~SecretLookup() = default;

std::optional<Secret> SecretLookup::find(const spec::SecretRef& reference) {
  if (auto known = impl_->remembered(reference)) return std::move(*known);
  return impl_->remember(reference, impl_->with_resolver([&](sources::Resolver& resolver) {
    return resolver.find(reference);
  }));
}

Secret SecretLookup::get(const spec::SecretRef& reference, const std::string& wanted_by) {
  if (auto known = impl_->remembered(reference); known && *known) return std::move(**known);
  Secret found = impl_->with_resolver(
      [&](sources::Resolver& resolver) { return resolver.get(reference, wanted_by); });
  return impl_->remember(reference, found).value_or(found);
}

Secret SecretLookup::get_line(const spec::SecretRef& reference, const std::string& wanted_by) {
  return secrets::clean_line(get(reference, wanted_by).reveal(), wanted_by).text;
}

SecretTree SecretLookup::open(const std::string& path) {
  return impl_->open(path);
}

void SecretLookup::add(const spec::SecretRef& reference, const Secret& secret) {
  impl_->replace(reference, secret);
}

Keys& SecretLookup::keys() {
  return impl_->keys();
}

}  // namespace rocca::session
