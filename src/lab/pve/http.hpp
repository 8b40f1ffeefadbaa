#pragma once

#include "lab/pve/datacenter.hpp"
#include "net/server/server.hpp"

#include <memory>
#include <string>

namespace rocca::lab::pve {

/// One request at a host's pveproxy, in the order of checks of the real one: request line,
/// authentication, body, route, "not for tokens", permission, forwarding to the node in the path,
/// parameters, handler.
void serve(Datacenter& dc, Node& node, net::Incoming request,
           std::shared_ptr<net::Responder> responder);

/// The same call without a connection, by somebody who sits at the host: all checks from the route
/// on. What comes of it is in the task log and in the state, as it is for everybody else.
Routine<void> act(Datacenter& dc, Node& node, Caller caller, std::string verb, std::string path,
                  RawParameters raw);

/// A ticket and its CSRF token, as POST /access/ticket hands them out and the cookie brings them
/// back.
struct Ticket {
  std::string ticket;
  std::string csrf;
};
std::string csrf_token(Datacenter& dc, const std::string& user, const std::string& time);
Ticket make_ticket(Datacenter& dc, const std::string& user);
/// The user of a ticket that is whole and not older than two hours.
std::optional<std::string> check_ticket(Datacenter& dc, std::string_view ticket);

/// What a request sent: parameters, and apart from them the file of an upload.
struct Body {
  RawParameters parameters;
  std::optional<Upload> upload;
};

/// Decodes `a=1&b=2`: plus is a blank, repeated keys become lists.
RawParameters parse_form(std::string_view text);

}  // namespace rocca::lab::pve
