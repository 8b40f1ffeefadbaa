#pragma once

#include "cli/command.hpp"

namespace rocca::cli {

// One function per command, each in the file of its name: flags, help text and what runs. The order
// of rocca's help is the table in catalog.cpp.
Command adopt_command();
Command apply_command();
Command claim_command();
Command completion_command();
Command doctor_command();
Command down_command();
Command drift_accept_command();
Command drift_command();
Command drift_ignore_command();
Command explain_command();
Command export_command();
Command graph_command();
Command help_command();
Command history_command();
Command init_command();
Command kubeconfig_command();
Command lab_command();
Command lock_command();
Command man_command();
Command new_command();
Command plan_command();
Command render_command();
Command schema_command();
Command secrets_decrypt_command();
Command secrets_edit_command();
Command secrets_encrypt_command();
Command secrets_init_command();
Command secrets_rotate_command();
Command secrets_set_command();
Command secrets_show_command();
Command secrets_unset_command();
Command secrets_updatekeys_command();
Command status_command();
Command talosconfig_command();
Command try_command();
Command up_command();
Command validate_command();
Command version_command();

}  // namespace rocca::cli
