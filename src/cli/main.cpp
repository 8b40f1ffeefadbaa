#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "base/files.hpp"
#include "cli/app.hpp"
#include "cli/terminal/private_file.hpp"
#include "cli/terminal/process.hpp"
#include "net/curl_transport.hpp"

#include <malloc.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <optional>
#include <streambuf>

extern char** environ;

namespace {

/// A stream onto a file descriptor that remembers why it failed. A reader that went away (`rocca
/// help | head -1`) is no failure: the rest goes nowhere in silence.
class DescriptorBuffer final : public std::streambuf {
 public:
  explicit DescriptorBuffer(int descriptor) : descriptor_(descriptor) {
    setp(buffer_.data(), buffer_.data() + buffer_.size());
  }
  int error() const { return error_; }

 protected:
  int_type overflow(int_type c) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }

  int sync() override {
    const char* from = pbase();
    while (from < pptr() && error_ == 0) {
      const ssize_t wrote = ::write(descriptor_, from, static_cast<std::size_t>(pptr() - from));
      if (wrote >= 0) {
        from += wrote;
      } else if (errno != EINTR) {
        error_ = errno;
      }
    }
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return error_ == 0 || error_ == EPIPE ? 0 : -1;
  }

 private:
  int descriptor_;
  int error_ = 0;
  std::array<char, 8192> buffer_{};
};

std::map<std::string, std::string> read_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (const char* equals = std::strchr(*entry, '='))
      variables.emplace(std::string(*entry, static_cast<std::size_t>(equals - *entry)), equals + 1);
  return variables;
}

std::string working_folder() {
  std::array<char, PATH_MAX> path{};
  return ::getcwd(path.data(), path.size()) != nullptr ? path.data() : ".";
}

rocca::cli::Terminal read_terminal() {
  rocca::cli::Terminal terminal;
  terminal.in = ::isatty(STDIN_FILENO) != 0;
  terminal.out = ::isatty(STDOUT_FILENO) != 0;
  terminal.err = ::isatty(STDERR_FILENO) != 0;
  winsize size{};
  if (terminal.out && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    terminal.width = size.ws_col;
  terminal.resizable = terminal.err;
  return terminal;
}

}  // namespace

int main(int argc, char** argv) {
  rocca::cli::close_memory();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // `ulimit -f`: the write says so, as on a full disk
  // Many threads that mostly wait share two: each more keeps what it once needed.
  mallopt(M_ARENA_MAX, 2);

  DescriptorBuffer out_buffer{STDOUT_FILENO};
  DescriptorBuffer err_buffer{STDERR_FILENO};
  std::ostream out{&out_buffer};
  std::ostream err{&err_buffer};
  err << std::unitbuf;
  out.tie(nullptr);
  err.tie(&out);  // on a terminal both come in the order they were said

  rocca::RealFiles files;
  rocca::SystemClock clock;
  rocca::SystemEntropy entropy;
  const rocca::cli::Terminal terminal = read_terminal();
  std::optional<rocca::cli::Interrupts> interrupts;
  rocca::cli::Context context{
      .files = files,
      .clock = clock,
      .entropy = entropy,
      .transport = [] { return std::make_unique<rocca::net::CurlTransport>(); },
      .environment = read_environment(),
      .folder = working_folder(),
      .in = std::cin,
      .out = out,
      .err = err,
      .terminal = terminal,
      .ask_secret =
          terminal.in && terminal.err
              ? std::function<rocca::Secret(std::string_view)>{rocca::cli::ask_secret_on_terminal}
              : nullptr,
      .settle_on_signals =
          [&interrupts] {
            if (!interrupts) interrupts.emplace();
            return interrupts->token();
          }};
  rocca::cli::remove_stale_private_files(context.environment);
  int code =
      rocca::cli::run(rocca::cli::catalog(), context, {argv + (argc > 0 ? 1 : 0), argv + argc});
  out.flush();
  // A full disk must not look like success; a reader that had enough is none of our business.
  if (out_buffer.error() != 0 && out_buffer.error() != EPIPE) {
    err << "error: standard output cannot be written: " << std::strerror(out_buffer.error())
        << "\n";
    if (code == 0) code = 1;
  }
  return code;
}
