#pragma once

#include "base/secret.hpp"
#include "talosconfig/codec.hpp"
#include "text/edit.hpp"
#include "text/value.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

// What a configuration that runs says beside what rocca would render: found out, and said as
// patches. Pure.

namespace rocca::adopt {

/// One key of one document that a patch puts right.
struct PatchStep {
  std::string document;                  // id, as ConfigDocument::id
  text::Path path;                       // empty: the whole document
  bool remove = false;                   // what is rendered there goes first
  std::optional<text::Value> value;      // then this comes
  std::optional<text::Value> gone = {};  // what is rendered there, where it goes
  bool own = false;  // its value names its node: `mark_own`, before secrets are taken out of it

  friend bool operator==(const PatchStep&, const PatchStep&) = default;
};

struct Difference {
  std::vector<PatchStep> steps;
  std::vector<std::string> unsaid;  // paths that no patch of Talos's own form can bring
};

/// The steps that make `rendered` into `active`, proved by taking them.
Difference derive_patch(const std::vector<talos::ConfigDocument>& rendered,
                        const std::vector<talos::ConfigDocument>& active, unsigned minor);

/// The steps as Talos's own patches: one document each, what goes before what comes.
std::vector<text::Value> patch_documents(const std::vector<PatchStep>& steps);

/// A node with the steps it needs.
struct NodeSteps {
  std::string name;
  bool control_plane = false;
  std::string pool;  // empty: written as a node
  std::vector<PatchStep> steps;
  std::set<std::string> own;  // addresses and names that no other node may get
  bool own_image = false;     // its image is not the one that the next node gets
};

/// Does the value name its node (`NodeSteps::own`)?
void mark_own(PatchStep& step, const std::set<std::string>& own);

/// Where the steps stand in the spec: as far up as all nodes there need them alike.
struct Levels {
  std::vector<PatchStep> all, controlplane, worker;
  std::map<std::string, std::vector<PatchStep>> pools, nodes;
};
/// What only one node shows and what names that node stays with it: the next node must not get it.
/// So does the removal of a name that rocca gives, where another one comes in its place: the next
/// node keeps rocca's. The installer of a node with an image of its own stands with it or its pool.
Levels assign(const std::vector<NodeSteps>& nodes);

/// The documents of a configuration that runs, with `***` where a secret may stand: by the place of
/// a value, as in every plan (talosconfig/secrecy.hpp), and not by the name of its key. Only what
/// `rendered` says in clear is known to be no secret there.
std::vector<text::Value> mask_active(const std::vector<talos::ConfigDocument>& active,
                                     const std::vector<talos::ConfigDocument>& rendered,
                                     unsigned minor);

/// Takes what may be a secret out of a step's value and puts `{ secret: NAME }` in its place.
/// `active` is the configuration the value comes from, `masked` the same by `mask_active`; names of
/// secrets that are known already are used again.
class SecretShelf {
 public:
  void take_from(PatchStep& step, const std::vector<talos::ConfigDocument>& active,
                 const std::vector<text::Value>& masked);
  const std::map<std::string, Secret>& secrets() const { return secrets_; }

 private:
  void walk(text::Value& value, const text::Value& clear, const text::Value& masked,
            const std::string& name);
  std::string name_of(const std::string& text, const std::string& wanted);

  std::map<std::string, Secret> secrets_;  // by name: adopted.registries-auth-password
};

}  // namespace rocca::adopt
