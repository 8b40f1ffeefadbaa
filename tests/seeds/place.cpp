#include "seeds/place.hpp"

#include "backends/kubernetes_store.hpp"
#include "backends/s3_store.hpp"
#include "base/error.hpp"
#include "state/http_store.hpp"
#include "state/local_store.hpp"
#include "state/sealing.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

namespace rocca::seeds {

namespace {

using namespace std::chrono_literals;
using backends::test::FarSide;

/// Terraform's `http` protocol as GitLab has it: nobody locks again what he holds.
class MemoryHttp final : public FarSide {
 public:
  std::optional<std::string> state, lock;

 protected:
  net::Answer answer(const net::Request& request, const std::string& target,
                     const std::string& body) override {
    const bool of_lock = target.starts_with("/state/blue/lock");
    if (of_lock && request.method == "LOCK") {
      if (lock) return make(423, *lock);
      lock = body;
      return make(200, "");
    }
    if (of_lock) {
      if (lock && id_of(*lock) != id_of(body)) return make(409, *lock);
      lock.reset();
      return make(200, "");
    }
    if (request.method == "GET") return state ? make(200, *state) : make(404, "");
    if (lock && target.find("ID=" + id_of(*lock)) == std::string::npos) return make(409, *lock);
    if (request.method == "DELETE")
      state.reset();
    else
      state = body;
    return make(200, "");
  }
  bool writes_state(const net::Request& request, const std::string&) const override {
    return request.method == "POST";
  }

 private:
  static net::Answer make(int status, std::string body) {
    net::Answer answer;
    answer.head.status = status;
    answer.body = std::move(body);
    return answer;
  }
  static std::string id_of(const std::string& info) {
    const text::Value parsed = text::parse_json(info, "lock");
    const text::Value* id = parsed.find("ID");
    return id == nullptr ? "" : id->text();
  }
};

}  // namespace

class Place::Way final : public net::Transport {
 public:
  Way(FarSide& far, lab::World& world) : far_(far), world_(world) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    // Its clock is hours ahead of ours, and goes as fast.
    if (const Instant now = world_.now() + 3h; now > far_.clock.now()) far_.clock.advance_to(now);
    far_.seen.clear();
    return far_.exchange(request, sink, std::move(stop));
  }

 private:
  FarSide& far_;
  lab::World& world_;
};

Place::Place(const Shape& shape, scenarios::ClusterRig& rig)
    : where_(shape.place), rig_(rig), entropy_(rig.home.world.fork("seal")) {
  if (shape.sealed) identity_ = secrets::age::Identity::generate(entropy_);
  if (where_ == Shape::Place::Folder && shape.sealed) {
    texts_ = [&rig] {
      std::vector<std::string> all;
      for (const char* name : {"state.json", "journal"})
        all.push_back(rig.files.find(rig.folder + "/.rocca/" + name).value_or(""));
      return all;
    };
  } else if (where_ == Shape::Place::S3) {
    const auto far = std::make_shared<backends::test::MemoryS3>();
    forget_ = [far] { far->objects.clear(); };
    texts_ = [far] {
      std::vector<std::string> all;
      for (const auto& [key, body] : far->objects) all.push_back(body);
      return all;
    };
    far_ = far;
  } else if (where_ == Shape::Place::Kubernetes) {
    const auto far = std::make_shared<backends::test::MemoryKube>();
    forget_ = [far] { far->objects.clear(); };
    far_ = far;
  } else if (where_ == Shape::Place::Http) {
    const auto far = std::make_shared<MemoryHttp>();
    forget_ = [far] { far->state.reset(); };
    texts_ = [far] { return std::vector{far->state.value_or("")}; };
    far_ = far;
  }
  if (far_) way_ = std::make_shared<Way>(*far_, rig.home.world);
}

state::Sealing Place::sealing() const {
  if (!identity_) return {};
  return state::age_sealing(
      {*identity_->recipient()}, [this] { return std::vector{*identity_}; }, entropy_);
}

std::unique_ptr<state::Store> Place::open() {
  const Clock& clock = rig_.home.world.clock();
  switch (where_) {
    case Shape::Place::Folder:
      break;
    case Shape::Place::Kubernetes: {
      kube::Access access;
      access.server = "https://10.9.0.1:6443";
      return backends::kubernetes_store(*way_, rig_.files, clock, access, "rocca", "blue",
                                        sealing());
    }
    case Shape::Place::S3:
      return backends::s3_store(
          *way_, clock, {"http://nas.home:9000", "us-east-1", "state", "key", Secret{"secret"}, {}},
          "blue.json", sealing());
    case Shape::Place::Http: {
      state::HttpAccess access;
      access.address = "http://git.home/state/blue";
      access.lock_address = "http://git.home/state/blue/lock";
      return state::http_store(*way_, clock, access, sealing());
    }
  }
  return state::local_store(rig_.files, rig_.folder + "/.rocca", sealing());
}

void Place::lose_next_write(bool arrives) {
  far_->trick = arrives ? FarSide::Trick::LoseAnswer : FarSide::Trick::LoseRequest;
  loses_ = true;
}

bool Place::has_lost_a_write() {
  if (!std::exchange(loses_, false)) return false;
  return std::exchange(far_->trick, FarSide::Trick::None) == FarSide::Trick::None;
}

}  // namespace rocca::seeds
