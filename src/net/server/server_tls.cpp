#include "net/server/server_tls.hpp"

#include "base/error.hpp"
#include "base/handle.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace rocca::net {
namespace {

using Bio = Handle<BIO, BIO_free_all>;
using Certificate = Handle<X509, X509_free>;
using Key = Handle<EVP_PKEY, EVP_PKEY_free>;

constexpr std::string_view talos_key_label = "ED25519 PRIVATE KEY";
constexpr std::string_view plain_key_label = "PRIVATE KEY";

[[noreturn]] void refuse(const std::string& what) {
  ERR_clear_error();
  throw Error(Fault::Usage, what);
}

Bio reader(std::string_view text) {
  return Bio{BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))};
}

std::vector<Certificate> read_certificates(std::string_view pem, const char* what) {
  const Bio bio = reader(pem);
  std::vector<Certificate> result;
  while (Certificate one{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    result.push_back(std::move(one));
  }
  // The end of the text is an error too, of this one kind; anything else is a damaged certificate.
  const auto code = ERR_peek_last_error();
  if (result.empty() || ERR_GET_REASON(code) != PEM_R_NO_START_LINE) {
    refuse(std::string{"cannot read "} + what + ": not PEM certificates");
  }
  ERR_clear_error();
  return result;
}

int no_password(char*, int, int, void*) noexcept {
  return -1;
}  // never ask on the terminal

Key read_key(const Secret& pem) {
  // Talos writes its keys under a label of its own, which OpenSSL does not know; inside is plain
  // PKCS#8.
  std::string text{pem.reveal()};
  for (auto at = text.find(talos_key_label); at != std::string::npos;
       at = text.find(talos_key_label, at)) {
    text.replace(at, talos_key_label.size(), plain_key_label);
  }
  const Bio bio = reader(text);
  Key key{PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr)};
  wipe(text);
  if (!key) refuse("cannot read the server's private key: not a PEM key, or an encrypted one");
  return key;
}

/// What came up while a client's certificate was checked, in the order in which Go asks.
struct Verdict {
  bool leaf_expired = false;
  bool unknown_authority = false;
  bool chain_expired = false;
  bool otherwise_bad = false;
};

int note_problem(int ok, X509_STORE_CTX* store) noexcept {
  if (ok == 1) return 1;
  auto* verdict = static_cast<Verdict*>(X509_STORE_CTX_get_app_data(store));
  switch (X509_STORE_CTX_get_error(store)) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      (X509_STORE_CTX_get_error_depth(store) == 0 ? verdict->leaf_expired
                                                  : verdict->chain_expired) = true;
      break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:  // a CA of the same name with another key
    case X509_V_ERR_CERT_UNTRUSTED:
      verdict->unknown_authority = true;
      break;
    default:
      verdict->otherwise_bad = true;
  }
  return 1;  // go on: Go's order of questions is not OpenSSL's
}

bool usage_is_exactly_client(X509* leaf) {
  using Usages = Handle<EXTENDED_KEY_USAGE, EXTENDED_KEY_USAGE_free>;
  const Usages usages{static_cast<EXTENDED_KEY_USAGE*>(
      X509_get_ext_d2i(leaf, NID_ext_key_usage, nullptr, nullptr))};
  return usages && sk_ASN1_OBJECT_num(usages.get()) == 1 &&
         OBJ_obj2nid(sk_ASN1_OBJECT_value(usages.get(), 0)) == NID_client_auth;
}

/// OpenSSL's verification with Go's verdict (crypto/tls, processCertsFromClient): the client must
/// see the alert that a Go server sends. The error set here is the one that OpenSSL turns into that
/// alert.
int verify_client(X509_STORE_CTX* store, void* exact_usage) noexcept {
  Verdict verdict;
  X509_STORE_CTX_set_app_data(store, &verdict);
  X509_STORE_CTX_set_verify_cb(store, note_problem);
  if (X509_verify_cert(store) != 1) verdict.otherwise_bad = true;
  if (exact_usage != nullptr && !usage_is_exactly_client(X509_STORE_CTX_get0_cert(store))) {
    verdict.otherwise_bad = true;
  }
  X509_STORE_CTX_set_app_data(store, nullptr);
  const int error = verdict.leaf_expired ? X509_V_ERR_CERT_HAS_EXPIRED  // 45
                    : verdict.unknown_authority
                        ? X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY     // 48
                    : verdict.chain_expired ? X509_V_ERR_CERT_HAS_EXPIRED  // 45
                    : verdict.otherwise_bad ? X509_V_ERR_CERT_REJECTED     // 42
                                            : X509_V_OK;
  X509_STORE_CTX_set_error(store, error);
  return error == X509_V_OK ? 1 : 0;
}

// In ALPN's form: each name behind its length.
constexpr std::string_view both_protocols = "\x02h2\x08http/1.1";
constexpr std::string_view only_http1 = "\x08http/1.1";

int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned offered_size, void* own) noexcept {
  const auto& ours = *static_cast<const std::string_view*>(own);
  unsigned char* chosen = nullptr;
  const int result =
      SSL_select_next_proto(&chosen, out_size, reinterpret_cast<const unsigned char*>(ours.data()),
                            static_cast<unsigned>(ours.size()), offered, offered_size);
  *out = chosen;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

void require_clients(SSL_CTX* context, const ServerTls& settings) {
  if (settings.client_authority_pem.empty()) {
    refuse("client certificates are asked for, but no authority is given to check them with");
  }
  for (const auto& authority :
       read_certificates(settings.client_authority_pem, "the authority of the clients")) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get());
    SSL_CTX_add_client_CA(context, authority.get());
  }
  // As in Go, whatever stands in the pool is an anchor, self-signed or not.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  const int mode = settings.clients == ServerTls::Clients::Require
                       ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                       : SSL_VERIFY_PEER;
  SSL_CTX_set_verify(context, mode, nullptr);
  SSL_CTX_set_cert_verify_callback(context, verify_client,
                                   settings.exact_client_usage ? context : nullptr);
}

}  // namespace

TlsContext make_tls_context(const ServerTls& settings) {
  TlsContext context{SSL_CTX_new(TLS_server_method()), SSL_CTX_free};
  if (!context) refuse("cannot make a TLS context");
  SSL_CTX* ctx = context.get();
  SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
  // No resumption: a client must show its certificate to the policy of now, and a ticket written to
  // a client that has already closed would turn its FIN into an RST.
  SSL_CTX_set_options(ctx,
                      SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_num_tickets(ctx, 0);
  SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);

  const auto chain =
      read_certificates(settings.identity.certificate_pem, "the server's certificate");
  const Key key = read_key(settings.identity.key_pem);
  if (SSL_CTX_use_certificate(ctx, chain.front().get()) != 1) {
    refuse("the server's certificate cannot be used for TLS");
  }
  for (std::size_t i = 1; i < chain.size(); ++i) SSL_CTX_add1_chain_cert(ctx, chain[i].get());
  if (SSL_CTX_use_PrivateKey(ctx, key.get()) != 1 || SSL_CTX_check_private_key(ctx) != 1) {
    refuse("the server's private key does not belong to its certificate");
  }
  // OpenSSL would otherwise look for missing issuers in the clients' authorities and send them
  // along.
  SSL_CTX_set_mode(ctx, SSL_MODE_NO_AUTO_CHAIN);

  static const std::string_view two = both_protocols;
  static const std::string_view one = only_http1;
  SSL_CTX_set_alpn_select_cb(ctx, choose_protocol,
                             const_cast<std::string_view*>(settings.offer_http2 ? &two : &one));
  if (settings.clients != ServerTls::Clients::Ignore) require_clients(ctx, settings);
  return context;
}

TlsStream::TlsStream(const TlsContext& context) : context_(context), ssl_(SSL_new(context.get())) {
  if (ssl_ == nullptr) throw Error(Fault::Busy, "cannot start TLS: out of memory");
  SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_accept_state(ssl_);
}

TlsStream::~TlsStream() {
  SSL_free(ssl_);
}

void TlsStream::shake() {
  const int result = SSL_do_handshake(ssl_);
  if (result == 1) {
    state_ = State::Open;
  } else if (SSL_get_error(ssl_, result) != SSL_ERROR_WANT_READ) {
    state_ = State::Failed;
  }
}

TlsStream::State TlsStream::feed(std::string_view wire, std::string& plain) {
  ERR_clear_error();
  BIO_write(SSL_get_rbio(ssl_), wire.data(), static_cast<int>(wire.size()));
  if (state_ == State::Handshaking) shake();
  std::array<char, 16 * 1024> buffer{};
  while (state_ == State::Open) {
    const int got = SSL_read(ssl_, buffer.data(), static_cast<int>(buffer.size()));
    if (got > 0) {
      plain.append(buffer.data(), static_cast<std::size_t>(got));
      continue;
    }
    const int error = SSL_get_error(ssl_, got);
    if (error == SSL_ERROR_WANT_READ) break;
    state_ = error == SSL_ERROR_ZERO_RETURN ? State::PeerClosed : State::Failed;
  }
  ERR_clear_error();
  return state_;
}

void TlsStream::seal(std::string_view plain) {
  ERR_clear_error();
  while (!plain.empty()) {
    const auto part = std::min<std::size_t>(plain.size(), std::numeric_limits<int>::max());
    const int wrote = SSL_write(ssl_, plain.data(), static_cast<int>(part));
    if (wrote <= 0) {
      state_ = State::Failed;
      break;
    }
    plain.remove_prefix(static_cast<std::size_t>(wrote));
  }
  ERR_clear_error();
}

void TlsStream::close_notify() {
  ERR_clear_error();
  if (state_ == State::Open || state_ == State::PeerClosed) SSL_shutdown(ssl_);
  ERR_clear_error();
}

std::string TlsStream::take_wire() {
  BIO* out = SSL_get_wbio(ssl_);
  std::string wire(BIO_ctrl_pending(out), '\0');
  if (!wire.empty()) BIO_read(out, wire.data(), static_cast<int>(wire.size()));
  return wire;
}

std::string TlsStream::protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_, &name, &size);
  return size == 0 ? std::string{} : std::string{reinterpret_cast<const char*>(name), size};
}

std::string TlsStream::peer_certificate() const {
  X509* leaf = SSL_get0_peer_certificate(ssl_);
  if (leaf == nullptr) return {};
  unsigned char* der = nullptr;
  const int size = i2d_X509(leaf, &der);
  if (size <= 0) return {};
  std::string result{reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)};
  OPENSSL_free(der);
  return result;
}

}  // namespace rocca::net
