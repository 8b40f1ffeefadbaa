#pragma once

#include "secrets/sops/sops.hpp"
#include "text/value.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace rocca::secrets::sops {

/// The documents of a text, metadata and all: YAML's documents, JSON's object, dotenv's lines as a
/// map of strings (comments included). Binary: the envelope is JSON.
std::vector<text::Value> read_documents(std::string_view text, Format format,
                                        std::string_view name);
std::string write_documents(const std::vector<text::Value>& documents, Format format,
                            unsigned yaml_indent, const std::string& json_indent);

/// Takes the metadata out of the documents; null if there are none. dotenv's `sops_…` keys are
/// unflattened.
text::Value take_metadata(std::vector<text::Value>& documents, Format format,
                          std::string_view name);
/// Puts them in again: into every document.
void put_metadata(std::vector<text::Value>& documents, Format format, const text::Value& metadata);

/// Keys must be strings and roots maps. Throws Error(Usage).
void require_sops_shape(const std::vector<text::Value>& documents, std::string_view name);

Recipients read_recipients(const text::Value& metadata, std::string_view name);
/// Writes keys, groups and threshold into the metadata.
void write_recipients(const Recipients& recipients, text::Value& metadata);
Selection read_selection(const text::Value& metadata, std::string_view name);
void write_selection(const Selection& selection, text::Value& metadata);
/// Puts the entries of a metadata map in the order that sops writes.
void sort_metadata(text::Value& metadata);

constexpr const char* written_version = "3.13.3";

}  // namespace rocca::secrets::sops
