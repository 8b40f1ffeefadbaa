#include "base/files.hpp"
#include "state/local_store.hpp"
#include "state/store_contract_test_support.hpp"

#include <utility>

namespace rocca::state::test {

namespace {

/// Files whose writes can go wrong without a power cut: the disk said nothing, or said no.
class TrickyFiles final : public Files {
 public:
  std::optional<std::string> find(const std::string& path, std::uint64_t limit) override {
    return files_.find(path, limit);
  }
  void write(const std::string& path, std::string_view content, unsigned mode) override {
    act(content.size(), [&] { files_.write(path, content, mode); });
  }
  void append(const std::string& path, std::string_view content) override {
    act(content.size(), [&] { files_.append(path, content); });
  }
  bool remove(const std::string& path) override { return files_.remove(path); }
  void rename(const std::string& from, const std::string& to) override { files_.rename(from, to); }
  void make_folder(const std::string& path, unsigned mode) override {
    files_.make_folder(path, mode);
  }
  std::vector<std::string> list(const std::string& folder) override { return files_.list(folder); }
  std::optional<FileStatus> status(const std::string& path) override { return files_.status(path); }
  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    return files_.try_lock(path);
  }

  enum class Trick { None, LoseAnswer, LoseRequest } trick = Trick::None;
  std::uint64_t written = 0;

 private:
  void act(std::size_t size, const std::function<void()>& body) {
    const Trick now = std::exchange(trick, Trick::None);
    if (now == Trick::LoseRequest) throw Error(Fault::Rejected, "no space left on the disk");
    written += size;
    body();
    if (now == Trick::LoseAnswer) throw Error(Fault::Rejected, "the disk does not answer");
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
  std::uint64_t written() override { return files_.written; }
  bool expires() const override { return false; }
  void kill(std::unique_ptr<Lock> lock) override { lock.reset(); }

 private:
  TrickyFiles files_;
  VirtualClock clock_;
  Sealing sealing_;
};

INSTANTIATE_TEST_SUITE_P(Local, StoreContract,
                         testing::Values(NamedPlace{"local",
                                                    [] { return std::make_unique<LocalPlace>(); }}),
                         [](const auto& test) { return test.param.name; });

}  // namespace

}  // namespace rocca::state::test
