#pragma once

namespace rocca::cli {

struct Context;
class Invocation;

// One function per verb, each in the file of its name. The table that names them is catalog.cpp.
int run_adopt(Context& context, const Invocation& invocation);
int run_apply(Context& context, const Invocation& invocation);
int run_claim(Context& context, const Invocation& invocation);
int run_completion(Context& context, const Invocation& invocation);
int run_doctor(Context& context, const Invocation& invocation);
int run_down(Context& context, const Invocation& invocation);
int run_drift(Context& context, const Invocation& invocation);
int run_drift_accept(Context& context, const Invocation& invocation);
int run_drift_ignore(Context& context, const Invocation& invocation);
int run_explain(Context& context, const Invocation& invocation);
int run_graph(Context& context, const Invocation& invocation);
int run_help(Context& context, const Invocation& invocation);
int run_history(Context& context, const Invocation& invocation);
int run_init(Context& context, const Invocation& invocation);
int run_kubeconfig(Context& context, const Invocation& invocation);
int run_try(Context& context, const Invocation& invocation);
int run_lab(Context& context, const Invocation& invocation);
int run_lock(Context& context, const Invocation& invocation);
int run_man(Context& context, const Invocation& invocation);
int run_new(Context& context, const Invocation& invocation);
int run_plan(Context& context, const Invocation& invocation);
int run_render(Context& context, const Invocation& invocation);
int run_export(Context& context, const Invocation& invocation);
int run_schema(Context& context, const Invocation& invocation);
int run_secrets_decrypt(Context& context, const Invocation& invocation);
int run_secrets_init(Context& context, const Invocation& invocation);
int run_secrets_edit(Context& context, const Invocation& invocation);
int run_secrets_encrypt(Context& context, const Invocation& invocation);
int run_secrets_rotate(Context& context, const Invocation& invocation);
int run_secrets_set(Context& context, const Invocation& invocation);
int run_secrets_show(Context& context, const Invocation& invocation);
int run_secrets_unset(Context& context, const Invocation& invocation);
int run_secrets_updatekeys(Context& context, const Invocation& invocation);
int run_status(Context& context, const Invocation& invocation);
int run_talosconfig(Context& context, const Invocation& invocation);
int run_up(Context& context, const Invocation& invocation);
int run_validate(Context& context, const Invocation& invocation);
int run_version(Context& context, const Invocation& invocation);

}  // namespace rocca::cli
