#include "base/files.hpp"
#include "state/local_store.hpp"
#include "state/sealing.hpp"
#include "state/store_contract_test_support.hpp"
#include "state/terraform_test_server.hpp"

#include <utility>

namespace rocca::state::test {

namespace {

/// Files whose writes can go wrong without a power cut: the disk said nothing, or said no.
class TrickyFiles final : public Files {
 public:
  std::optional<std::string> find(const std::string& path, std::uint64_t limit) override {
    if (dark) throw Error(Fault::Rejected, "input/output error");
    return files_.find(path, limit);
  }
  void write(const std::string& path, std::string_view content, unsigned mode) override {
    act(content.size(), [&] { files_.write(path, content, mode); });
  }
  void append(const std::string& path, std::string_view content) override {
    act(content.size(), [&] { files_.append(path, content); });
  }
  bool remove(const std::string& path) override {
    bool there = false;
    act(0, [&] { there = files_.remove(path); });
    return there;
  }
  bool remove_folder(const std::string& path) override { return files_.remove_folder(path); }
  void rename(const std::string& from, const std::string& to) override { files_.rename(from, to); }
  void make_folder(const std::string& path, unsigned mode) override {
    files_.make_folder(path, mode);
  }
  std::vector<std::string> list(const std::string& folder) override { return files_.list(folder); }
  std::optional<FileStatus> status(const std::string& path) override { return files_.status(path); }
  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    return files_.try_lock(path);
  }

  /// A dead process's locks are gone with it, whatever it still holds of them here.
  void die() {
    files_.power_cut();
    dark = true;
  }

  std::optional<std::uint64_t> die_at;
  enum class Trick { None, LoseAnswer, LoseRequest, GoDark } trick = Trick::None;
  bool dark = false;
  std::uint64_t written = 0;

 private:
  void act(std::size_t size, const std::function<void()>& body) {
    const bool now_or_never = die_at && *die_at < 2;
    const bool after = die_at && *die_at == 1;
    if (die_at && !now_or_never) *die_at -= 2;
    if (now_or_never && !dark) {
      if (after) body();
      die();
    }
    if (dark) throw Error(Fault::Rejected, "input/output error");
    const Trick now = std::exchange(trick, Trick::None);
    if (now == Trick::LoseRequest) throw Error(Fault::Rejected, "no space left on the disk");
    written += size;
    body();
    dark = now == Trick::GoDark;
    if (dark || now == Trick::LoseAnswer) throw Error(Fault::Rejected, "the disk does not answer");
  }

  MemoryFiles files_;
};

class LocalPlace : public Place {
 public:
  explicit LocalPlace(Sealing sealing = {}) : sealing_(std::move(sealing)) {}
  std::unique_ptr<Store> open() override {
    return local_store(files_, "clusters/blue/.rocca", sealing_);
  }
  Instant now() override { return clock_.now(); }
  void advance(Duration by) override { clock_.advance(by); }
  void lose_next_answer() override { files_.trick = TrickyFiles::Trick::LoseAnswer; }
  void lose_next_request() override { files_.trick = TrickyFiles::Trick::LoseRequest; }
  void die_at(std::uint64_t edge) override { files_.die_at = edge; }
  bool revive() override {
    files_.die_at.reset();
    return std::exchange(files_.dark, false);
  }
  void go_dark_after_next_write() override { files_.trick = TrickyFiles::Trick::GoDark; }
  void light() override { files_.dark = false; }
  std::uint64_t written() override { return files_.written; }
  Expiry expiry() const override { return Expiry::AtOnce; }
  void kill(std::unique_ptr<Lock> lock) override { lock.reset(); }

 private:
  TrickyFiles files_;
  VirtualClock clock_;
  Sealing sealing_;
};

class HttpPlace : public Place {
 public:
  explicit HttpPlace(TerraformServer::Habits habits) : server_(std::move(habits)) {}
  std::unique_ptr<Store> open() override { return server_.open(clock_); }
  Instant now() override { return clock_.now(); }
  void advance(Duration by) override {
    clock_.advance(by);
    server_.advance(by);
  }
  void lose_next_answer() override { server_.trick(TerraformServer::Trick::LoseAnswer); }
  void lose_next_request() override { server_.trick(TerraformServer::Trick::LoseRequest); }
  void die_at(std::uint64_t edge) override { server_.die_at(edge); }
  bool revive() override { return server_.revive(); }
  void go_dark_after_next_write() override { server_.trick(TerraformServer::Trick::GoDark); }
  void light() override { server_.trick(TerraformServer::Trick::None); }
  std::uint64_t written() override { return server_.written(); }
  bool adds() const override { return false; }
  Expiry expiry() const override {
    return server_.habits().relock ? Expiry::InTime : Expiry::Never;
  }
  void kill(std::unique_ptr<Lock> lock) override {
    server_.trick(TerraformServer::Trick::Deaf);
    lock.reset();
    server_.trick(TerraformServer::Trick::None);
  }

 private:
  VirtualClock clock_;
  TerraformServer server_;
};

class SealedPlace final : public LocalPlace {
 public:
  SealedPlace() : LocalPlace(sealing()) {}

 private:
  static Sealing sealing() {
    static SystemEntropy entropy;
    const auto identity = secrets::age::Identity::generate(entropy);
    return age_sealing(
        {*identity.recipient()}, [identity] { return std::vector{identity}; }, entropy);
  }
};

std::unique_ptr<Place> http(bool relock) {
  return std::make_unique<HttpPlace>(TerraformServer::Habits{.relock = relock});
}

INSTANTIATE_TEST_SUITE_P(
    Places, StoreContract,
    testing::Values(NamedPlace{"local", [] { return std::make_unique<LocalPlace>(); }},
                    NamedPlace{"local_encrypted", [] { return std::make_unique<SealedPlace>(); }},
                    NamedPlace{"http", [] { return http(true); }},
                    NamedPlace{"http_without_renewal", [] { return http(false); }}),
    [](const auto& test) { return test.param.name; });

}  // namespace

}  // namespace rocca::state::test
