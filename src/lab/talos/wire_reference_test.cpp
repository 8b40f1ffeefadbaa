#include "lab/talos/replay_decode.hpp"
#include "lab/talos/replay_test_site.hpp"
#include "support/reference.hpp"

#include <gmock/gmock.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <zlib.h>

#include <set>

// Below the calls: HTTP/2 requests as they stand on the wire, certificates, and the shapes of what
// is inside opaque answers.

namespace rocca::lab::talos {
namespace {

using namespace replay;

Descriptors descriptors() {
  return Descriptors{text::parse_json(
      test::read_file(test::reference_path("talos/protobuf/descriptors.json")), "descriptors")};
}

/// What has no place in a call that goes straight into the model. On sockets net::Server decides
/// them; its own tests look at ALPN.
const std::map<std::string, std::string>& not_in_process() {
  static const std::map<std::string, std::string> reasons{
      {"m-tls11", "TLS versions are the socket's"},
      {"v13r-tls12", "TLS versions are the socket's"},
      {"m-noalpn", "there is no ALPN without a socket"},
      {"m-pings", "pings belong to a connection"},
      {"r-pings", "pings belong to a connection"}};
  return reasons;
}

std::unique_ptr<Site> site_for(const Value& exchange, const Configs& configs) {
  auto site = std::make_unique<Site>(configs);
  if (text_at(exchange, "mode") == "maintenance") {
    site->add("10.5.0.2", "cp1", text_at(exchange, "talos"), Site::Kubernetes::Off);
    return site;
  }
  site->control_plane("10.5.0.2", "cp1", text_at(exchange, "talos"));
  site->bootstrap("10.5.0.2");
  site->control_plane("10.5.0.3", "cp2", text_at(exchange, "talos"));
  return site;
}

struct Answer {
  int status = 0;
  std::map<std::string, std::string> fields;  // headers and trailers
  std::string body;
  std::optional<Error> refused;
};

Answer send(Site& site, const Value& exchange) {
  struct Sink final : net::BodySink {
    std::string body;
    net::Response head;
    void begin(const net::Response& response) override { head = response; }
    bool write(std::string_view bytes) override {
      body += bytes;
      return true;
    }
  } sink;
  net::Request http;
  http.version = net::HttpVersion::Http2;
  http.timeout = 4s;
  const std::string identity = text_at(exchange, "identity");
  http.tls = site.tls(identity == "none" ? identity : identity + "+noverify");
  for (const Value& header : exchange.find("request_headers")->items()) {
    const std::string name = header.items()[0].text(), value = header.items()[1].text();
    if (name == ":method")
      http.method = value;
    else if (name == ":path")
      http.url = "https://10.5.0.2:50000" + (value.starts_with('/') ? value : "/" + value);
    else if (!name.starts_with(':'))
      http.headers.add(name, value);
  }
  http.body = from_hex(text_at(exchange, "request_body_hex")).value_or("");
  Answer answer;
  try {
    sink.head = site.wire.exchange(http, sink, {});
  } catch (const Error& error) {
    answer.refused = error;  // or a stream that did not end while we looked
  }
  answer.status = sink.head.status;
  for (const net::Headers* part : {&sink.head.headers, &sink.head.trailers})
    for (const char* name : {"content-type", "grpc-status", "grpc-message"})
      if (const auto value = part->find(name)) answer.fields[name] = std::string(*value);
  answer.body = sink.body;
  return answer;
}

TEST(TalosNodeWire, AnswersTheRecordedRequests) {
  const Configs configs;
  const Descriptors decoder = descriptors();
  std::size_t agree = 0;
  for (const std::string& file : test::reference_files("talos-node", "http2.json")) {
    const Value root = text::parse_json(test::read_file(file), "http2");
    for (const Value& exchange : root.find("exchanges")->items()) {
      const std::string id = text_at(exchange, "id");
      SCOPED_TRACE(id);
      test::count_case();
      if (not_in_process().contains(id)) continue;
      const auto site = site_for(exchange, configs);
      const std::string end = text_at(exchange, "end") + text_at(exchange, "tls_error");
      if (exchange.find("request_headers") == nullptr || end.starts_with("remote error: tls:")) {
        // With TLS 1.2 the handshake itself fails, with 1.3 the first read: refused all the same.
        Value asked = exchange;
        if (asked.find("request_headers") == nullptr) {
          asked.set(
              "request_headers",
              text::parse_json(
                  R"([[":method","POST"],[":path","/machine.MachineService/Version"]])", "asked"));
          asked.set("request_body_hex", Value::string("0000000000"));
        }
        const Answer answer = send(*site, asked);
        EXPECT_TRUE(answer.refused) << "it let us in";
        if (answer.refused) {
          EXPECT_EQ(answer.refused->fault(), Fault::Denied) << answer.refused->message();
        }
        ++agree;
        continue;
      }
      const Answer answer = send(*site, exchange);
      std::string data;
      bool ended = false;
      for (const Value& frame : exchange.find("frames")->items()) {
        if (text_at(frame, "type") == "DATA") data += text_at(frame, "data_hex");
        const Value* headers = frame.find("headers");
        if (headers == nullptr) continue;
        for (const Value& header : headers->items()) {
          const std::string name = header.items()[0].text();
          // A URL has its slash, also where the recorder's path had none.
          const std::string value =
              replace_all(header.items()[1].text(), "\"nonsense", "\"/nonsense");
          ended = ended || name == "grpc-status";
          if (name == ":status") {
            EXPECT_EQ(std::to_string(answer.status), value);
          } else if (const auto mine = answer.fields.find(name); mine != answer.fields.end()) {
            EXPECT_EQ(mine->second, value) << name;
          } else {
            EXPECT_EQ(value, "") << name << " is missing";
          }
        }
      }
      // A stream that was still open when the recorder left has no status.
      if (ended) {
        EXPECT_TRUE(answer.fields.contains("grpc-status"));
      }
      const auto recorded = unframe(from_hex(data).value_or(""));
      const auto mine = unframe(answer.body);
      EXPECT_TRUE(recorded && mine);
      if (recorded && mine) {
        EXPECT_EQ(mine->size(), recorded->size());
      }
      if (ended && recorded && mine && mine->size() == recorded->size()) {
        std::string path;
        for (const Value& header : exchange.find("request_headers")->items())
          if (header.items()[0].text() == ":path") path = header.items()[1].text();
        const std::string type = decoder.response_of(path);
        for (std::size_t i = 0; i < mine->size(); ++i)
          EXPECT_EQ(text::emit_json(comparable(decoder.decode(type, (*mine)[i]))),
                    text::emit_json(comparable(decoder.decode(type, (*recorded)[i]))));
      }
      ++agree;
    }
  }
  fmt::print("{} exchanges replayed, {} need a socket\n", agree, not_in_process().size());
}

// ---- certificates

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Certificate parse_certificate(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  Certificate certificate{PEM_read_bio_X509(bio, nullptr, nullptr, nullptr), X509_free};
  BIO_free(bio);
  return certificate;
}

/// `CN=cp1`, `O=talos`, parts of one name joined by `+`.
std::string name_text(X509_NAME* name) {
  std::vector<std::string> parts;
  for (int i = 0; i < X509_NAME_entry_count(name); ++i) {
    const X509_NAME_ENTRY* entry = X509_NAME_get_entry(name, i);
    const ASN1_STRING* data = X509_NAME_ENTRY_get_data(entry);
    parts.push_back(std::string(OBJ_nid2sn(OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry)))) + "=" +
                    std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(data)),
                                static_cast<std::size_t>(ASN1_STRING_length(data))));
  }
  return join(parts, "+");
}

int valid_seconds(X509* certificate) {
  int days = 0, seconds = 0;
  ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(certificate),
                 X509_get0_notAfter(certificate));
  return days * 86400 + seconds;
}

std::set<std::string> alternative_names(X509* certificate, int kind) {
  std::set<std::string> names;
  auto* all = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all, i);
    if (name->type != kind) continue;
    const ASN1_STRING* data = kind == GEN_DNS ? name->d.dNSName : name->d.iPAddress;
    const unsigned char* bytes = ASN1_STRING_get0_data(data);
    const auto size = static_cast<std::size_t>(ASN1_STRING_length(data));
    if (kind == GEN_DNS)
      names.emplace(reinterpret_cast<const char*>(bytes), size);
    else if (size == 4)
      names.insert(fmt::format("{}.{}.{}.{}", bytes[0], bytes[1], bytes[2], bytes[3]));
    else
      names.insert("::1");  // the only one of its kind here
  }
  GENERAL_NAMES_free(all);
  return names;
}

std::set<std::string> texts(const Value* list) {
  std::set<std::string> out;
  if (list != nullptr && list->is_list())
    for (const Value& item : list->items()) out.insert(item.text());
  return out;
}

TEST(TalosNodeWire, ShowsCertificatesOfTheRecordedShape) {
  const Configs configs;
  for (const std::string& file : test::reference_files("talos-node", "http2.json")) {
    const Value root = text::parse_json(test::read_file(file), "http2");
    std::set<std::string> seen;
    for (const Value& exchange : root.find("exchanges")->items()) {
      const Value* shown = exchange.find("server_certificates");
      if (shown == nullptr || !shown->is_list() || shown->size() != 1) continue;
      const Value& recorded = shown->items().front();
      if (!seen.insert(text::emit_json(recorded)).second) continue;
      SCOPED_TRACE(text_at(exchange, "id"));
      test::count_case();
      const auto site = site_for(exchange, configs);
      const Service* service = site->world.network().find("10.5.0.2", 50000);
      ASSERT_NE(service, nullptr);
      const auto& tls = service->secured();
      ASSERT_TRUE(tls);
      const Certificate certificate = parse_certificate(tls->identity.certificate_pem);
      ASSERT_NE(certificate, nullptr);
      X509* x = certificate.get();
      EXPECT_EQ(name_text(X509_get_subject_name(x)), text_at(recorded, "Subject"));
      EXPECT_EQ(name_text(X509_get_issuer_name(x)), text_at(recorded, "Issuer"));
      EXPECT_EQ(EVP_PKEY_base_id(X509_get0_pubkey(x)) == EVP_PKEY_ED25519,
                text_at(recorded, "KeyAlg") == "Ed25519");
      EXPECT_EQ(X509_get_signature_nid(x) == NID_ED25519, text_at(recorded, "SigAlg") == "Ed25519");
      EXPECT_EQ(alternative_names(x, GEN_DNS), texts(recorded.find("DNS")));
      EXPECT_EQ(alternative_names(x, GEN_IPADD), texts(recorded.find("IPs")));
      EXPECT_EQ(fmt::format("{}h0m0s", valid_seconds(x) / 3600), text_at(recorded, "ValidFor"));
      EXPECT_EQ(X509_get_key_usage(x), static_cast<std::uint32_t>(KU_DIGITAL_SIGNATURE));
      EXPECT_EQ(X509_get_extended_key_usage(x), static_cast<std::uint32_t>(XKU_SSL_SERVER));
      EXPECT_EQ(X509_check_ca(x) != 0, text_at(recorded, "IsCA") == "true");
      EXPECT_EQ(X509_get_ext_by_NID(x, NID_subject_key_identifier, -1) >= 0,
                text_at(recorded, "SKI") == "true");
      EXPECT_EQ(X509_get_ext_by_NID(x, NID_authority_key_identifier, -1) >= 0,
                text_at(recorded, "AKI") == "true");
    }
    EXPECT_EQ(seen.size(), 2u) << "maintenance mode's own, and one of the cluster's";
  }
}

// ---- what is inside

std::string gunzip(std::string packed) {
  std::string out(1u << 20, '\0');
  z_stream stream{};
  inflateInit2(&stream, 16 + MAX_WBITS);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int end = inflate(&stream, Z_FINISH);
  EXPECT_EQ(end, Z_STREAM_END) << "the stream has its checksum and its end";
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

/// The `bytes` of a common.Data.
std::string data_of(const Outcome& outcome) {
  std::string all;
  for (const std::string& answer : outcome.answers)
    for (const std::string& part : fields(answer, 2).value_or(std::vector<std::string>{}))
      all += part;
  return all;
}

std::string until_zero(std::string_view text) {
  return std::string(text.substr(0, text.find('\0')));
}

void check_kubeconfig(Site& site, const Value& shape) {
  const Outcome outcome =
      site.call("10.5.0.8", "admin", "/machine.MachineService/Kubeconfig", {""}, {}, 4s, 0);
  ASSERT_EQ(outcome.code, "OK") << outcome.message;
  EXPECT_EQ(std::to_string(outcome.answers.size()), text_at(shape, "messages"));
  const std::string tar = gunzip(data_of(outcome));
  ASSERT_GT(tar.size(), 512u);
  const Value& header = *shape.find("tar_header");
  EXPECT_EQ(until_zero(std::string_view(tar).substr(0, 100)), text_at(header, "name"));
  EXPECT_EQ(until_zero(std::string_view(tar).substr(100, 8)), text_at(header, "mode"));
  EXPECT_EQ(until_zero(std::string_view(tar).substr(108, 8)), text_at(header, "uid"));
  EXPECT_EQ(until_zero(std::string_view(tar).substr(116, 8)), text_at(header, "gid"));
  EXPECT_EQ(tar.substr(156, 1), text_at(header, "typeflag"));
  EXPECT_EQ(tar.substr(257, 6), std::string("ustar\0", 6));
  // Neither padding nor blocks at the end: what is there is the header and the file.
  const auto size = std::stoul(until_zero(std::string_view(tar).substr(124, 12)), nullptr, 8);
  EXPECT_EQ(tar.size(), 512 + size);
  EXPECT_EQ(text_at(shape, "padding_after_body"), "false");
  EXPECT_EQ(text_at(shape, "end_of_archive_blocks"), "false");
  const Value config = text::parse_yaml(tar.substr(512), "kubeconfig");
  std::vector<std::string> keys, wanted;
  for (const text::Entry& entry : config.entries()) keys.push_back(entry.key);
  for (const Value& key : shape.find("top_level_keys_in_order")->items())
    wanted.push_back(key.text());
  EXPECT_EQ(keys, wanted);
  EXPECT_EQ(text_at(config.find("clusters")->items().front(), "name"),
            shape.find({"names", "cluster"})->text());
  EXPECT_EQ(text_at(config, "current-context"), shape.find({"names", "context"})->text());
  EXPECT_EQ(text_at(config.find("users")->items().front(), "name"),
            shape.find({"names", "user"})->text());
}

void check_client_configuration(Site& site, const Value& shape, const Descriptors& decoder) {
  std::string request, duration;
  for (const Value& role : shape.find("roles")->items()) put_bytes(request, 1, role.text());
  const std::string lives = text_at(shape, "crt_ttl");
  put_varint(duration, 1, parse_uint(lives.substr(0, lives.size() - 1)).value_or(0));
  put_bytes(request, 2, duration);
  const std::string method = "/machine.MachineService/GenerateClientConfiguration";
  const Outcome outcome = site.call("10.5.0.8", "admin", method, {request}, {}, 4s, 0);
  ASSERT_EQ(outcome.code, "OK") << outcome.message;
  ASSERT_EQ(outcome.answers.size(), 1u);
  const Value json = decoder.decode(decoder.response_of(method), outcome.answers.front());
  const Value& message = json.find("messages")->items().front();
  std::vector<std::string> given, wanted{"ca", "crt", "key", "talosconfig"};
  for (const text::Entry& entry : message.entries())
    if (entry.key != "metadata") given.push_back(entry.key);
  EXPECT_EQ(given, wanted);
  const auto bytes = [&](const char* key) {
    return from_base64(text_at(message, key)).value_or("");
  };
  const Value config = text::parse_yaml(bytes("talosconfig"), "talosconfig");
  EXPECT_EQ(text_at(config, "context"), text_at(shape, "context"));
  if (const Value* keys = shape.find("context_keys")) {
    std::vector<std::string> mine, theirs;
    for (const text::Entry& entry : config.find({"contexts", text_at(shape, "context")})->entries())
      mine.push_back(entry.key);
    for (const Value& key : keys->items()) theirs.push_back(key.text());
    EXPECT_EQ(mine, theirs);
  }
  const Certificate certificate = parse_certificate(bytes("crt"));
  ASSERT_NE(certificate, nullptr);
  EXPECT_EQ(name_text(X509_get_subject_name(certificate.get())), text_at(shape, "crt_subject"));
  EXPECT_EQ(std::to_string(valid_seconds(certificate.get())) + "s", lives);
  if (const std::string label = text_at(shape, "key_label"); !label.empty()) {
    EXPECT_TRUE(bytes("key").starts_with("-----BEGIN " + label + "-----"));
  }
  if (const Value* extensions = shape.find("crt_extensions")) {
    EXPECT_EQ(X509_get_ext_count(certificate.get()), static_cast<int>(extensions->size()));
  }
}

TEST(TalosNodeWire, OpaqueAnswersHaveTheRecordedShape) {
  const Configs configs;
  const Descriptors decoder = descriptors();
  for (const std::string& file : test::reference_files("talos-node", "payload-formats.json")) {
    const Value root = text::parse_json(test::read_file(file), "formats");
    Site site{configs};
    site.control_plane("10.5.0.8", "g3", text_at(root, "talos"), Site::Kubernetes::Whole);
    site.bootstrap("10.5.0.8");
    site.world.run_for(1min);
    for (const text::Entry& entry : root.entries()) {
      if (entry.key == "about" || entry.key == "talos") continue;
      SCOPED_TRACE(entry.key);
      if (entry.key == "kubeconfig") {
        check_kubeconfig(site, entry.value);
        test::count_case();
      } else if (entry.key == "generate_client_configuration") {
        for (const Value& shape : entry.value.items()) {
          check_client_configuration(site, shape, decoder);
          test::count_case();
        }
      } else if (entry.key == "read") {
        std::string request;
        put_bytes(request, 1, "/proc/sys/kernel/random/boot_id");
        const Outcome outcome =
            site.call("10.5.0.8", "admin", "/machine.MachineService/Read", {request}, {}, 4s, 0);
        EXPECT_EQ(outcome.code, "OK") << outcome.message;
        EXPECT_EQ(outcome.answers.size(), 1u);
        test::count_case();
      } else if (entry.key == "etcd_snapshot") {
        const Outcome outcome = site.call("10.5.0.8", "admin",
                                          "/machine.MachineService/EtcdSnapshot", {""}, {}, 10s, 0);
        EXPECT_EQ(outcome.code, "OK") << outcome.message;
        EXPECT_EQ(data_of(outcome).size() % 512, 32u);
        test::count_case();
      } else if (entry.key == "copy") {
        // Of files there are none here: what is missing is told in the metadata of an ordinary
        // message, as a real node does it, and nothing looks like an archive.
        const Outcome outcome =
            site.call("10.5.0.8", "admin", "/machine.MachineService/Copy", {""}, {}, 4s, 0);
        EXPECT_EQ(outcome.code, "OK") << outcome.message;
        EXPECT_EQ(data_of(outcome), "");
        test::count_case();
      } else {
        ADD_FAILURE() << "nobody looks at it";
      }
    }
  }
}

}  // namespace
}  // namespace rocca::lab::talos
