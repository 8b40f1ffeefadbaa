// How an exchange that ended without an answer is told: which Fault, and words that name the cause.

#include "base/units.hpp"
#include "net/curl_exchange_internal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>

namespace rocca::net {

namespace {

// The alerts by which a server refuses a client's certificate; 40 is what TLS 1.2 says when there
// was none.
bool is_about_certificate(int alert) {
  constexpr int about[] = {40, 41, 42, 43, 44, 45, 46, 48, 49, 116};
  return std::ranges::find(about, alert) != std::end(about);
}

// OpenSSL's three ways to say that the first bytes from the far side are no TLS record.
bool is_not_tls(std::string_view text) {
  return text.find("wrong version number") != std::string_view::npos ||
         text.find("packet length too long") != std::string_view::npos ||
         text.find("http request") != std::string_view::npos ||
         text.find("unknown protocol") != std::string_view::npos;
}

// A query may carry a signature or a token, so it is not shown.
std::string without_query(const Url& url) {
  return url.origin() + url.target.substr(0, url.target.find('?'));
}

}  // namespace

std::string CurlExchange::reason_text(CURLcode code) const {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return fmt::format("the name '{}' cannot be resolved", url_.host);
    case CURLE_COULDNT_RESOLVE_PROXY:
      return "the proxy's name cannot be resolved";
    case CURLE_COULDNT_CONNECT: {
      long number = 0;
      (curl_easy_getinfo)(line_.easy.get(), CURLINFO_OS_ERRNO, &number);
      if (number == 0) break;
      std::string text = std::generic_category().message(static_cast<int>(number));
      text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
      return text;
    }
    case CURLE_OPERATION_TIMEDOUT:
      if (idled_out_)
        return fmt::format("nothing came for {}", rocca::to_string(*request_.idle_timeout));
      if (!ready_) {
        const Duration limit = request_.timeout
                                   ? std::min(*request_.timeout, request_.connect_timeout)
                                   : request_.connect_timeout;
        return fmt::format("no connection within {}", rocca::to_string(limit));
      }
      return fmt::format("the answer did not {} within {}", stage_ == Stage::Body ? "end" : "come",
                         rocca::to_string(request_.timeout.value_or(Duration{})));
    case CURLE_GOT_NOTHING:
      return "the connection was closed before an answer came";
    case CURLE_PARTIAL_FILE:
      return "the connection was closed in the middle of the answer";
    case CURLE_SSL_CONNECT_ERROR:
      if (is_not_tls(text_.data())) return "it does not speak TLS on this port";
      break;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      return "what came back is not HTTP";
    default:
      break;
  }
  return text_[0] != '\0' ? text_.data() : curl_easy_strerror(code);
}

Error CurlExchange::tls_refusal(int alert) const {
  const bool known = line_.tls.tls().identity != nullptr;
  return Error(Fault::Denied,
               fmt::format("{} refused {}: TLS alert {}", url_.origin(),
                           known ? "our client certificate" : "us without a client certificate",
                           alert_text(alert)))
      .hint(known ? "is the certificate still valid, and was it issued by the CA that this server "
                    "trusts?"
                  : "this server wants a client certificate");
}

Error CurlExchange::not_trusted(CURLcode code) const {
  const std::string shown = line_.tls.peer() ? to_string(*line_.tls.peer()) : "unknown";
  if (line_.tls.pin_mismatch())
    return Error(Fault::Denied,
                 fmt::format(
                     "{} shows another certificate than the pinned one\n  pinned: {}\n  shown:  {}",
                     url_.origin(), to_string(line_.tls.tls().pin), shown))
        .hint(
            "if the certificate was renewed on purpose, compare the shown fingerprint on the "
            "machine itself and "
            "put it in the place of the old one; otherwise somebody else answers at this address");
  return Error(Fault::Denied,
               fmt::format("the certificate of {} is not trusted: {} (its SHA-256 fingerprint: {})",
                           url_.origin(), reason_text(code), shown))
      .hint(
          "give the CA that issued it, or pin its fingerprint after comparing it on the machine "
          "itself");
}

Error CurlExchange::failure(CURLcode code) const {
  if (refusal_) return *refusal_;
  if (line_.tls.pin_mismatch() || code == CURLE_PEER_FAILED_VERIFICATION) return not_trusted(code);
  const auto alert = line_.tls.alert();
  if (alert && is_about_certificate(*alert)) return tls_refusal(*alert);
  if (code == CURLE_SSL_CERTPROBLEM)
    return Error(Fault::Usage, fmt::format("the TLS settings for {} cannot be used: {}",
                                           url_.origin(), line_.tls.problem()));
  if (code == CURLE_SSL_CACERT_BADFILE)
    return Error(Fault::Usage,
                 "the machine's root certificates cannot be read: " + reason_text(code))
        .hint("install Debian's package ca-certificates");

  const std::string way = through_proxy_ ? " through the proxy" : "";
  std::string reason = reason_text(code);
  if (alert) reason = "TLS alert " + alert_text(*alert);
  Error error = sent_something()
                    ? Error(Fault::Lost, fmt::format("the answer to {} {}{} was lost: {}", method_,
                                                     without_query(url_), way, reason))
                    : Error(Fault::Unreachable,
                            fmt::format("cannot reach {}{}: {}", url_.origin(), way, reason));
  // "CONNECT tunnel failed, response 403": the proxy's own answer, not the server's.
  if (const std::string_view text = text_.data();
      through_proxy_ && text.find("CONNECT tunnel failed") != std::string_view::npos)
    error.hint(
        text.ends_with("403") || text.ends_with("407")
            ? "the proxy does not let us there: NO_PROXY names hosts that are reached without "
              "it"
            : "the proxy found nobody there: is it the right host, and the right port?");
  if (code == CURLE_SSL_CONNECT_ERROR && is_not_tls(text_.data()))
    error.hint("perhaps it is a clear-text port: try http:// in place of https://");
  if (!tls_ && stage_ == Stage::Status &&
      (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY ||
       code == CURLE_GOT_NOTHING))
    error.hint("perhaps the port speaks TLS: try https:// in place of http://");
  return error;
}

}  // namespace rocca::net
