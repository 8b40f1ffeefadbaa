#include "proxmox/task_cause.hpp"

#include <gtest/gtest.h>

namespace rocca::proxmox {
namespace {

struct Row {
  const char* name;
  std::string exit_status;
  std::vector<std::string> log;
  std::string cause;
};

class Cause : public testing::TestWithParam<Row> {};

TEST_P(Cause, IsWhatTheLogSaysWhereTheExitStatusSaysNothing) {
  const Row& row = GetParam();
  EXPECT_EQ(cause_of_failure(row.exit_status, row.log), row.cause);
}

const std::string qemu_img =
    "unable to create VM 7 - copy failed: command '/usr/bin/qemu-img convert a b' failed: exit "
    "code 1";
const Row rows[] = {
    {"a_sentence_of_its_own",
     "VM is locked (backup)",
     {"some line: error 5"},
     "VM is locked (backup)"},
    {"the_script_behind_qemu",
     "start failed: QEMU exited with code 1",
     {"bridge 'vmbr7' does not exist", "kvm: -netdev x: network script y failed with status 512",
      "TASK ERROR: start failed: QEMU exited with code 1"},
     "bridge 'vmbr7' does not exist"},
    {"a_device_of_qemu",
     "start failed: QEMU exited with code 1",
     {"generating cloud-init ISO",
      "kvm: -device vfio-pci,host=0000:01:00.0: vfio 0000:01:00.0: group 12 is not viable",
      "TASK ERROR: start failed: QEMU exited with code 1"},
     "kvm: -device vfio-pci,host=0000:01:00.0: vfio 0000:01:00.0: group 12 is not viable"},
    {"the_last_error_counts",
     qemu_img,
     {"Formatting 'x', fmt=raw size=1 preallocation=off", "could not fetch hints, going on",
      "transferred 1.0 MiB of 2.0 MiB (50.00%)",
      "qemu-img: error while writing at byte 9: No space left on device",
      "TASK ERROR: " + qemu_img},
     "qemu-img: error while writing at byte 9: No space left on device"},
    {"progress_and_warnings_are_no_cause",
     qemu_img,
     {"WARN: no efidisk configured, error in sight", "transferred 0.0 B of 2.0 MiB (0.00%)",
      "TASK ERROR: " + qemu_img},
     qemu_img},
    {"a_refused_download",
     "download failed: exit code 8",
     {"Connecting to 10.0.0.9:80... connected.",
      "HTTP request sent, awaiting response... 503 Service Unavailable",
      "2026-01-01 00:00:00 ERROR 503: Service Unavailable.",
      "TASK ERROR: download failed: exit code 8"},
     "2026-01-01 00:00:00 ERROR 503: Service Unavailable."},
    {"an_empty_log",
     "command 'lvcreate x' failed: exit code 5",
     {},
     "command 'lvcreate x' failed: exit code 5"},
    {"a_killed_worker",
     "unexpected status",
     {"starting", "mkfs: cannot open /dev/x: Device or resource busy"},
     "mkfs: cannot open /dev/x: Device or resource busy"},
    {"no_exit_status",
     "",
     {"zfs error: cannot create 'tank/vm-1-disk-0': out of space"},
     "zfs error: cannot create 'tank/vm-1-disk-0': out of space"},
};
INSTANTIATE_TEST_SUITE_P(Logs, Cause, testing::ValuesIn(rows),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(NamesNoCause, OnlyWhereAProgramsExitIsAll) {
  for (const char* text : {"exit code 1", "start failed: QEMU exited with code 1", "got signal 9",
                           "command 'x' failed: exit code 255", "unexpected status",
                           "script y failed with status 512", "failed: exit status 2."})
    EXPECT_TRUE(names_no_cause(text)) << text;
  for (const char* text :
       {"VM 100 already running", "volume 'x' does not exist", "received interrupt",
        "not enough free space (1 < 20)", "", "timeout after 30", "code 5 is bad"})
    EXPECT_FALSE(names_no_cause(text)) << text;
}

}  // namespace
}  // namespace rocca::proxmox
