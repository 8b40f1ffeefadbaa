#pragma once

#include "lab/kube/server.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::lab::kube {

using Causes = std::vector<Cause>;

// The rules of single kinds. `live` is null on create. A status write skips the rules of the spec.
void check_workload(const Resource& resource, const text::Value& object, const text::Value* live,
                    const std::string& subresource, Causes& causes);
void check_network(const Resource& resource, const text::Value& object, const text::Value* live,
                   const std::string& subresource, Causes& causes);
void check_access(const Resource& resource, const text::Value& object, const text::Value* live,
                  Causes& causes);
void check_cluster(const Resource& resource, const text::Value& object, const text::Value* live,
                   const std::string& subresource, Causes& causes);
void check_more(const Resource& resource, const text::Value& object, const text::Value* live,
                Causes& causes);

/// A pod's spec, alone or in a template.
void check_pod_spec(const text::Value& spec, const std::string& path, Causes& causes);
/// What may change in a pod: images, deadlines, additional tolerations.
void check_pod_change(const text::Value& spec, const text::Value& live, Causes& causes);

// Parts that several kinds share.
void check_label_map(const text::Value* labels, const std::string& path, Causes& causes);
void check_label_selector(const text::Value* selector, const std::string& path, Causes& causes);
void check_least(const text::Value& object, std::string_view field, const std::string& path,
                 std::int64_t least, Causes& causes);
void check_text(const std::vector<std::string>& wrong, const std::string& path,
                const std::string& text, Causes& causes);
void check_port(std::int64_t port, const std::string& path, Causes& causes);
/// A number from 1 to 65535 or a port's name.
void check_port_reference(const text::Value* port, const std::string& path, Causes& causes);
/// One of the known words; an empty one is required.
void check_word(const std::string& word, const std::string& path,
                const std::vector<std::string>& known, Causes& causes);
bool is_address(const std::string& text);
bool is_cidr(const std::string& text);
std::vector<std::string> wrong_port_name(std::string_view name);
/// JSON as Go's errors show a value; null when there is none.
std::string shown_json(const text::Value* value);
bool same_values(const text::Value* a, const text::Value* b);

}  // namespace rocca::lab::kube
