#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::kube {

// What k8s.io/apimachinery/pkg/util/validation says about names; empty: nothing is wrong.
std::vector<std::string> wrong_subdomain(std::string_view name);
std::vector<std::string> wrong_label(std::string_view name);      // RFC 1123
std::vector<std::string> wrong_old_label(std::string_view name);  // RFC 1035
std::vector<std::string> wrong_qualified_name(std::string_view name);
std::vector<std::string> wrong_label_value(std::string_view value);
std::vector<std::string> wrong_config_key(std::string_view key);
std::vector<std::string> wrong_path_segment(std::string_view name);

}  // namespace rocca::lab::kube
