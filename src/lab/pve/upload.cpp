#include "lab/pve/upload.hpp"

#include "base/strings.hpp"

namespace rocca::lab::pve {

namespace {

/// `name="x"` of a Content-Disposition line.
std::optional<std::string> quoted(std::string_view line, std::string_view key) {
  const std::string mark = std::string(key) + "=\"";
  std::size_t at = line.find(" " + mark);
  if (at == std::string_view::npos) at = line.find(";" + mark);
  if (at == std::string_view::npos) return std::nullopt;
  at += mark.size() + 1;
  const std::size_t end = line.find('"', at);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(line.substr(at, end - at));
}

}  // namespace

bool is_upload(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  std::vector<std::string> parts;
  for (const std::string& part : split(path, '/'))
    if (!part.empty()) parts.push_back(part);
  return parts.size() == 7 && parts[0] == "api2" && parts[2] == "nodes" && parts[4] == "storage" &&
         parts[6] == "upload";
}

std::optional<Body> read_upload(const net::Incoming& request) {
  const std::string type(request.headers.find("Content-Type").value_or(""));
  const std::size_t at = type.find("boundary=");
  if (!type.starts_with("multipart/form-data") || at == std::string::npos) return std::nullopt;
  const std::string boundary = "--" + type.substr(at + 9);
  Body body;
  std::string_view rest = request.body;
  if (!rest.starts_with(boundary)) return std::nullopt;
  rest.remove_prefix(boundary.size());
  while (rest.starts_with("\r\n")) {
    rest.remove_prefix(2);
    const std::size_t blank = rest.find("\r\n\r\n");
    if (blank == std::string_view::npos) return std::nullopt;
    const std::string_view head =
        rest.substr(0, rest.find("\r\n"));  // only the first line is looked at
    rest.remove_prefix(blank + 4);
    const std::size_t end = rest.find("\r\n" + boundary);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string content(rest.substr(0, end));
    rest.remove_prefix(end + 2 + boundary.size());
    if (!to_lower(head).starts_with("content-disposition: form-data;")) return std::nullopt;
    const auto name = quoted(head, "name");
    if (!name) return std::nullopt;
    if (*name == "filename") {
      const auto file = quoted(head, "filename");
      if (!file) return std::nullopt;
      body.upload = Upload{*file, content};
      body.parameters["filename"] = Raw{{*file}, false};
      break;  // what follows the file is not read
    }
    body.parameters[*name] = Raw{{content}, false};
  }
  if (!body.upload) return std::nullopt;
  return body;
}

}  // namespace rocca::lab::pve
