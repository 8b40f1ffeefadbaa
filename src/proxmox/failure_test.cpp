#include "proxmox/failure.hpp"

#include <gmock/gmock.h>

namespace rocca::proxmox {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Case {
  int status;  // 0: a task's exit status
  const char* text;
  Reason reason;
  Remedy remedy;
};

class Sentences : public testing::TestWithParam<Case> {};

TEST_P(Sentences, AreUnderstood) {
  const Case& c = GetParam();
  const Failure failure = c.status == 0 ? classify_task(c.text) : classify(c.status, c.text);
  EXPECT_STREQ(to_string(failure.reason), to_string(c.reason)) << c.text;
  EXPECT_STREQ(to_string(failure.remedy()), to_string(c.remedy)) << c.text;
}

INSTANTIATE_TEST_SUITE_P(
    Texts, Sentences,
    testing::Values(
        Case{595, "No route to host", Reason::NotExecuted, Remedy::Retry},
        Case{596, "Connection timed out", Reason::Unknown, Remedy::Look},
        Case{599, "Too many redirections", Reason::Unknown, Remedy::Look},
        Case{401, "Authentication failed!", Reason::NotAuthenticated, Remedy::Stop},
        Case{501, "Method 'GET /foo' not implemented", Reason::NotImplemented, Remedy::Report},
        Case{500, "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout",
             Reason::Contention, Remedy::Retry},
        Case{500, "cfs-lock 'storage-nfs' error: got lock request timeout", Reason::Contention,
             Remedy::Retry},
        Case{0, "'storage-nfs'-locked command timed out - aborting", Reason::Contention,
             Remedy::Retry},
        Case{500, "got no worker upid - start worker failed", Reason::Contention, Remedy::Retry},
        Case{0, "VM quit/powerdown failed - got timeout", Reason::TimedOut, Remedy::Look},
        Case{500, "VM 100 qga command 'guest-ping' failed - got timeout", Reason::AgentSilent,
             Remedy::Replan},
        Case{500, "VM is locked (backup)", Reason::ConfigLocked, Remedy::Replan},
        Case{0, "VM 100 already running", Reason::AlreadyRunning, Remedy::Replan},
        Case{500, "VM 100 not running", Reason::NotRunning, Remedy::Replan},
        Case{500, "unable to create VM 100 - VM 100 already exists on node 'pve2'",
             Reason::AlreadyExists, Remedy::Replan},
        Case{500,
             "unable to create VM 101 - close (rename) atomic file "
             "'/etc/pve/nodes/n/qemu-server/101.conf' failed: File exists",
             Reason::AlreadyExists, Remedy::Replan},
        Case{500, "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist",
             Reason::DoesNotExist, Remedy::Replan},
        Case{0, "unable to find configuration file for VM 9999 on node 'n'", Reason::DoesNotExist,
             Remedy::Replan},
        Case{500, "checksum mismatch (file change by other user?)", Reason::Changed,
             Remedy::Replan},
        Case{500, "can't remove VM 100 - protection mode enabled", Reason::Protected,
             Remedy::Report},
        Case{500, "unable to remove VM 100 - used in HA resources and purge parameter not set.",
             Reason::InUse, Remedy::Report},
        Case{500, "cluster not ready - no quorum?", Reason::NoQuorum, Remedy::Stop},
        Case{500, "cfs-lock 'file-user_cfg' error: no quorum!", Reason::NoQuorum, Remedy::Stop},
        Case{0, "storage 'x' is disabled", Reason::Disabled, Remedy::Stop},
        Case{500, "storage 'x' is not online", Reason::Offline, Remedy::Stop},
        Case{0, "not enough free space (1 < 2)", Reason::NoSpace, Remedy::Stop},
        Case{500, "only root can set 'args' config", Reason::RootOnly, Remedy::Report},
        Case{500, "storage 'local' is not configured for content-type 'import'",
             Reason::WrongContent, Remedy::Report},
        Case{0, "received interrupt", Reason::Interrupted, Remedy::Look},
        Case{0, "unexpected status", Reason::Interrupted, Remedy::Look},
        Case{0, "start failed: QEMU exited with code 1", Reason::StartFailed, Remedy::Stop},
        Case{0, "download failed: exit code 8", Reason::SourceFailed, Remedy::Stop},
        Case{500, "a sentence nobody knows", Reason::Other, Remedy::Report}));

TEST(Failure, NamesTheMissingPrivilege) {
  const Failure failure =
      classify(403, "Permission check failed (/vms/100, VM.Audit|VM.Config.Disk)");
  EXPECT_EQ(failure.path, "/vms/100");
  EXPECT_THAT(failure.privileges, ElementsAre("VM.Audit", "VM.Config.Disk"));
  EXPECT_THAT(failure.error("reading").hint(),
              HasSubstr("grant VM.Audit or VM.Config.Disk on /vms/100"));
}

TEST(Failure, ReadsThePrivilegeOutOfATask) {
  const Failure failure = classify_task(
      "unable to create VM 100 - 403 Permission check failed (/storage/x, "
      "Datastore.AllocateSpace)");
  EXPECT_EQ(failure.reason, Reason::Forbidden);
  EXPECT_EQ(failure.path, "/storage/x");
}

TEST(Failure, KeepsEveryParameterError) {
  const Failure failure = classify(400, "Parameter verification failed.",
                                   {{"cores", "type check ('integer') failed - got 'x'"},
                                    {"vmid", "property is missing and it is not optional"}});
  EXPECT_EQ(failure.reason, Reason::BadParameter);
  const std::string text = failure.error("creating VM 100").render();
  EXPECT_THAT(text, HasSubstr("cores: type check"));
  EXPECT_THAT(text, HasSubstr("vmid: property is missing"));
}

TEST(Failure, SeesATakenIdBehindAParameterError) {
  EXPECT_EQ(
      classify(400, "Parameter verification failed.", {{"vmid", "VM 108 already exists"}}).reason,
      Reason::AlreadyExists);
}

}  // namespace
}  // namespace rocca::proxmox
