#pragma once

#include "lab/kube/schema/schema.hpp"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::kube {

struct Subresource {
  std::string name;
  std::string group, version;  // of its kind, where that is another than the resource's
  std::string kind;
  std::vector<std::string> verbs;
};

/// One resource of one version as it is served: `deployments` of `apps/v1`.
struct Resource {
  std::string group, version, plural, singular, kind, list_kind;
  bool namespaced = true;
  std::vector<std::string> verbs, short_names, categories;
  std::vector<Subresource> subresources;
  TypeRef type;
  bool generation = false;   // metadata.generation counts changes of what is wanted
  bool conditional = false;  // an update must name the resourceVersion
  bool create_on_update = false;
  std::string crd;                      // name of the CustomResourceDefinition it comes from
  std::vector<std::string> selectable;  // field selectors besides metadata.name and .namespace
  text::Value columns;                  // a custom kind's additionalPrinterColumns
  text::Value scale;                    // a custom kind's scale paths
  text::Value conversion;               // a custom kind's conversion, if it has one
  std::string deprecation;              // what a request for this version is warned of
  std::string stored;                   // the version its objects are kept in

  bool custom() const { return !crd.empty(); }
  std::string api_version() const { return group.empty() ? version : group + "/" + version; }
  /// Where its objects are kept: the same for all versions.
  std::string key() const { return group + "/" + plural; }
  const Subresource* find(std::string_view subresource) const;
  bool can(std::string_view verb) const;
};

/// A group with its versions in the order discovery lists them.
struct Group {
  std::string name;
  std::vector<std::string> versions;
};

/// What is served: the built-in kinds, and custom ones while their definition is there.
class Kinds {
 public:
  explicit Kinds(const Schemas& schemas);

  const Resource* find(std::string_view group, std::string_view version,
                       std::string_view plural) const;
  const Resource* find_kind(std::string_view api_version, std::string_view kind) const;
  /// Some version of the resource, the preferred one first.
  const Resource* find_any(std::string_view group, std::string_view plural) const;
  bool has_group(std::string_view group) const;
  bool is_custom(std::string_view group) const;
  bool has_version(std::string_view group, std::string_view version) const;
  std::vector<Group> groups() const;  // without the core group
  std::vector<const Resource*> of(std::string_view group, std::string_view version) const;
  std::vector<const Resource*> all() const;

  void add(Resource resource);
  void remove_crd(std::string_view crd);

 private:
  std::vector<std::unique_ptr<Resource>> resources_;
};

/// v2 before v1 before v1beta1: how Kubernetes orders versions.
bool newer_version(std::string_view a, std::string_view b);

}  // namespace rocca::lab::kube
