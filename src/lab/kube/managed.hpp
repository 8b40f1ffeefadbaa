#pragma once

#include "lab/kube/schema/fields.hpp"

#include <string>
#include <vector>

namespace rocca::lab::kube {

/// Who writes, and through which door.
struct Writer {
  std::string manager;
  std::string api_version;
  std::string subresource;
  std::string time;  // RFC 3339
  FieldSet ignored;  // what this door cannot change (status on the main resource …)
};

/// `metadata.managedFields` of `object` after a create, update or patch; `live` is what was there
/// (null for a create). An object whose owners were wiped stays without them until it is applied.
void track_update(const Type& type, const text::Value& live, text::Value& object,
                  const Writer& writer);

/// The object after an apply. Throws Failure 409 with the conflicts unless `force`. `changed` says
/// whether anything but times differs.
text::Value apply(const Type& type, const text::Value& live, const text::Value& config,
                  const Writer& writer, bool force);

/// The paths nobody owns: name, uid, resourceVersion and the like.
FieldSet never_owned();
FieldSet one_field(std::string_view name);

}  // namespace rocca::lab::kube
