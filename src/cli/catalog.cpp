#include "cli/command.hpp"
#include "cli/commands/commands.hpp"

namespace rocca::cli {

Catalog catalog() {
  return {new_command(),
          init_command(),
          validate_command(),
          explain_command(),
          schema_command(),
          render_command(),
          lock_command(),
          doctor_command(),
          plan_command(),
          up_command(),
          apply_command(),
          down_command(),
          claim_command(),
          status_command(),
          drift_command(),
          drift_accept_command(),
          drift_ignore_command(),
          graph_command(),
          history_command(),
          kubeconfig_command(),
          talosconfig_command(),
          export_command(),
          adopt_command(),
          secrets_init_command(),
          secrets_encrypt_command(),
          secrets_decrypt_command(),
          secrets_edit_command(),
          secrets_set_command(),
          secrets_unset_command(),
          secrets_rotate_command(),
          secrets_updatekeys_command(),
          secrets_show_command(),
          try_command(),
          lab_command(),
          version_command(),
          help_command(),
          completion_command(),
          man_command()};
}

}  // namespace rocca::cli
