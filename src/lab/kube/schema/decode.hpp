#pragma once

#include "lab/kube/schema/schema.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::kube {

/// A body that Go could not put into its struct.
struct BadType {
  std::string message;  // json: cannot unmarshal number into Go struct field …
};

/// Reads a value as Go reads it into the struct and writes it back: what is empty and may be left
/// out is gone, structs by value are there, quantities are canonical, unknown fields are told and
/// dropped. Custom kinds keep what they are given (see prune). Throws BadType.
text::Value decode(const Type& type, const text::Value& in, std::vector<std::string>& unknown);

/// An empty slice that is always written does not survive the way through etcd: it comes back as
/// null. Who sent it owns it all the same, so this comes after owners are told.
void drop_empty_slices(const Type& type, text::Value& value);

/// Problems as the typed reader of server-side apply words them; none: it fits.
std::vector<std::string> misfits(const Type& type, const text::Value& in,
                                 const std::string& path = "");

/// `1000m` is `1`, `0.5` is `500m`; nothing for what is no quantity.
std::optional<std::string> canonical_quantity(std::string_view text);
/// In thousandths, for comparing; binary and decimal suffixes.
std::optional<double> quantity_value(std::string_view text);

bool is_time(std::string_view text);        // RFC 3339
bool is_micro_time(std::string_view text);  // with exactly six decimals

}  // namespace rocca::lab::kube
