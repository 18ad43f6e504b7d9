// SPDX-License-Identifier: Apache-2.0
#include "config/keys.hpp"

#include <array>

namespace shardsweep::config {
namespace {

using Key = KeyType;

// clang-format off
constexpr auto sweep_table = std::to_array<KeyInfo>({
    {"", "name", Key::name, "a name", "", "name of the sweep; submitting the same name again edits the sweep"},
    {"", "cluster", Key::special, "a preset, a file or a map", "", "the hardware, see cluster"},
    {"", "models", Key::special, "a map of models", "", "models of this file, see models.NAME"},
    {"", "constants", Key::special, "a map of axes", "", "axes with one value, and the global batch"},
    {"", "axes", Key::special, "a map of axes", "", "axes that vary: their product is the grid"},
    {"", "zip", Key::special, "a list of maps of axes", "", "axes that advance together: [{nodes: [1, 2], tp: [4, 8]}]"},
    {"", "points", Key::special, "a list of maps of axes", "", "hand-picked points beside the grid"},
    {"", "points_from", Key::text, "a CSV file", "", "the same from a table; its header names axes and variables"},
    {"", "vars", Key::special, "a map of lists", "", "variables of your own: they reach the ranks' environment, results and filters"},
    {"", "control", Key::special, "a layout, network, auto or off", "auto", "each allocation runs it at its start and end, to compare allocations"},
    {"", "exclude", Key::special, "a list", "", "points to leave out, see exclude"},
    {"", "measure", Key::special, "a map", "", "how a trial is measured, see measure"},
    {"", "runner", Key::special, "a name or a map", "shardbench", "the program to measure, see runner"},
    {"", "env", Key::special, "a map of texts", "", "environment variables of the ranks"},
    {"", "container", Key::special, "a map", "", "the container that ranks run in, see container; a key here wins over the site file's"},
    {"", "classify", Key::special, "a list of maps", "", "the meaning of lines of the ranks' output, see classify"},
    {"", "search", Key::special, "a map", "", "how to find the fastest layout without running all, see search"},
    {"", "prove", Key::special, "one-gpu or off", "off", "run ranks of the fastest predicted layouts of your trainer alone on one GPU first, to know their memory"},
    {"", "proof_of", Key::name, "a name", "", "written by 'prove' into the sweep of these ranks: whose layouts they are"},
    {"constants", "global_batch_tokens", Key::count, "a whole number", "", "tokens per train step; a multiple of seq_len"},
    {"constants", "global_batch_size", Key::count, "a whole number", "", "samples per train step, in place of global_batch_tokens"},
    {"cluster", "preset", Key::special, "a preset or a file", "", "values to start from; 'shardsweep presets' lists the presets"},
    {"cluster", "name", Key::name, "a name", "the preset's", "required without a preset"},
    {"cluster", "gpu", Key::text, "a text", "", "name of the GPU as the driver gives it; empty means CPU slots"},
    {"cluster", "gpus_per_node", Key::count, "a whole number", "", "GPUs, or slots, of a node"},
    {"cluster", "memory", Key::bytes, "a size", "", "memory of one GPU or slot"},
    {"cluster", "peak_flops", Key::special, "a map by dtype", "", "dense peak of one GPU in FLOP/s: {bf16: 989e12}; without it there is no MFU"},
    {"cluster", "memory_bandwidth", Key::rate, "a rate", "", "bandwidth of device memory"},
    {"cluster", "intra_node_bandwidth", Key::rate, "a rate", "", "bandwidth of a GPU's links inside the node, one direction"},
    {"cluster", "inter_node_bandwidth", Key::rate, "a rate", "", "bandwidth of a GPU's network adapter, one direction"},
    {"cluster", "inter_node_group_bandwidth", Key::rate, "a rate", "", "bandwidth of a ring over several adapters of a node, per GPU"},
    {"cluster", "intra_node_latency", Key::latency, "a latency", "", "latency of a small message inside the node"},
    {"cluster", "inter_node_latency", Key::latency, "a latency", "", "latency of a small message between nodes"},
    {"cluster", "gemm_efficiency", Key::share, "a share", "0.55", "share of the peak in matrix products"},
    {"cluster", "attention_efficiency", Key::share, "a share", "0.35", "share of the peak in attention"},
    {"cluster", "intra_node_efficiency", Key::share, "a share", "0.53", "share of intra_node_bandwidth in collectives"},
    {"cluster", "inter_node_efficiency", Key::share, "a share", "0.54", "share of inter_node_bandwidth in collectives"},
    {"cluster", "this_machine", Key::boolean, "true or false", "false", "always run on this machine, without a scheduler"},
    {"cluster", "shared_host", Key::boolean, "true or false", "true", "others may use the host's CPUs during a measurement"},
    {"models.NAME", "layers", Key::count, "a whole number", "", "transformer layers; also num_hidden_layers"},
    {"models.NAME", "hidden", Key::count, "a whole number", "", "hidden size; also hidden_size"},
    {"models.NAME", "ffn", Key::count, "a whole number", "", "size of the feed-forward layer; also intermediate_size"},
    {"models.NAME", "heads", Key::count, "a whole number", "", "attention heads; also num_attention_heads"},
    {"models.NAME", "kv_heads", Key::count, "a whole number", "heads", "key and value heads; also num_key_value_heads"},
    {"models.NAME", "vocab", Key::count, "a whole number", "", "size of the vocabulary; also vocab_size"},
    {"models.NAME", "head_dim", Key::count, "a whole number", "hidden / heads", "values of one head; also head_size"},
    {"models.NAME", "experts", Key::count, "a whole number", "0", "experts of each layer; 0: all layers are dense; also num_experts"},
    {"models.NAME", "experts_per_token", Key::count, "a whole number", "", "experts that a router chooses for a token; also num_experts_per_tok"},
    {"models.NAME", "expert_ffn", Key::count, "a whole number", "", "width of one expert; also moe_intermediate_size"},
    {"models.NAME", "shared_experts", Key::count, "a whole number", "0", "experts that every token goes through; also n_shared_experts"},
    {"models.NAME", "dense_layers", Key::count, "a whole number", "0", "first layers without experts; also first_k_dense_replace"},
    {"models.NAME", "tied_embeddings", Key::boolean, "true or false", "false", "input and output embeddings are one matrix; also tie_word_embeddings"},
    {"container", "runtime", Key::special, "pyxis, enroot, apptainer, podman-hpc, shifter or none", "", "the program that starts containers on the nodes"},
    {"container", "image", Key::special, "an image, or a list", "", "a file or a name, as the runtime takes it; a list is an axis, the variable image"},
    {"container", "mounts", Key::texts, "a list of SOURCE:TARGET", "", "folders of the host; ':ro' behind one mounts it for reading only; those of both files hold"},
    {"container", "workdir", Key::text, "an absolute path", "as without a container", "working folder of the ranks inside"},
    {"container", "env", Key::special, "a map of texts", "", "variables inside of the container; 'env' of the sweep wins"},
    {"container", "options", Key::texts, "a list of texts", "", "further options of the runtime, in front of the image"},
    {"measure", "warmup", Key::count, "a whole number", "3", "train steps before the timed ones"},
    {"measure", "steps", Key::count, "a whole number", "10", "timed train steps"},
    {"measure", "repeats", Key::special, "a whole number or until_resolved", "1", "trials of each point, a search needs 1; with 'finalists' the rounds of the finals, by default until_resolved"},
    {"measure", "finalists", Key::count, "a whole number from 2", "", "layouts of each cell that run again in one allocation when the cell has ended; without it none do"},
    {"measure", "node_sets", Key::count, "a whole number", "", "by default 1: sets of nodes that a choice of finals is held against; from 2 on the first two layouts of a cell run once more on other nodes"},
    {"measure", "resolve", Key::percent, "a share", "", "a difference of less does not matter, by default 1%; ends finals"},
    {"runner", "name", Key::name, "a name", "shardbench", "trainer for predictions; also the name in results if the program reports none"},
    {"runner", "program", Key::text, "a program", "", "beside the sweep file, beside shardsweep or on PATH; default: shardbench-cuda on clusters with a gpu, else shardbench-cpu"},
    {"runner", "args", Key::texts, "a list of texts", "", "further flags of the runner; changing them makes all trials new"},
    {"runner", "profile", Key::text, "own, megatron, nanotron or torchtitan", "own", "shardbench does what that trainer does, see runner/README.md; another one makes all trials new"},
    {"runner", "argv", Key::texts, "a list of texts", "", "command line of a trainer as it is, with placeholders: see 'help placeholders'"},
    {"runner", "log", Key::text, "a trainer", "", "whose log 'argv' prints, see 'read-log --list'; needed unless 'patterns' are given"},
    {"runner", "patterns", Key::texts, "a list of texts", "", "lines of its log with {key} for a number: \"iteration {iteration} took {step_ms} ms\""},
    {"runner", "files", Key::special, "a map of names to files", "", "written into each attempt's folder with placeholders filled in; a value of several lines is the text itself"},
    {"runner", "launch", Key::special, "rank or node", "rank", "one process for each rank, or one on each node (torchrun)"},
    {"runner", "cwd", Key::text, "a folder", "the sweep file's", "where 'argv' runs; \"{attempt_dir}\" is the attempt's folder"},
    {"runner", "version", Key::text, "a text", "unknown", "version of the trainer; another one makes all trials new"},
    {"runner", "unchecked", Key::texts, "a list of names", "none", "truth checks of its log to leave out: first_loss, parameters, version"},
    {"runner", "gives_up", Key::boolean, "true or false", "as it says itself", "whether it takes --give-up-above; submitting fills it in"},
    {"runner", "snapshot", Key::special, "none, copy or git", "none", "run from a copy of the tree, made when the sweep is submitted: all of it, or what git tracks with its changes; another tree makes all trials new"},
    {"runner", "snapshot_hash", Key::text, "a hash", "", "of that copy; submitting fills it in"},
    {"runner", "snapshot_root", Key::text, "a folder", "", "that it was made of; submitting fills it in"},
    {"runner", "hashes", Key::special, "a map of programs to hashes", "", "what its own programs hold; submitting fills it in, and with another one nothing is started"},
    {"exclude", "when", Key::text, "an SQL expression", "", "over axes, variables and the model's shape: \"tp > 8\"; a bare text is the same"},
    {"exclude", "why", Key::text, "a text", "", "shown with the points that it leaves out"},
    {"classify", "name", Key::name, "a name", "", "name of the rule, shown in the cause"},
    {"classify", "pattern", Key::text, "a text with *", "", "text of a line; * is any text"},
    {"classify", "outcome", Key::special, "an outcome", "", "oom, hung, timeout, node_failure, comm_error, crashed or rejected"},
    {"search", "policy", Key::special, "exhaustive or best_first", "exhaustive", "order of the trials: the plan's, or the most promising first"},
    {"search", "until", Key::special, "a map", "", "when a cell ends, see search.until; default: at its last trial"},
    {"search", "rules", Key::special, "a map", "", "rules that leave trials out, see search.rules"},
    {"search", "learn_across", Key::boolean, "true or false", "true", "cells learn from each other"},
    {"search", "cut_short", Key::special, "a factor or off", "1.2", "end an attempt early if its train steps take this many times as long as those of the cell's best; best_first alone"},
    {"search.until", "regret", Key::percent, "a share", "", "end when nothing untested is faster by more than this"},
    {"search.until", "confidence", Key::percent, "a share", "95%", "how sure that must be"},
    {"search.until", "runs", Key::count, "a whole number", "", "end after so many runs"},
    {"search.until", "gpu_hours", Key::real, "a number", "", "end after so many GPU-hours"},
    {"search.rules", "micro_batch", Key::boolean, "true or false", "true", "after an OOM, skip larger micro-batches of the same layout"},
    {"search.rules", "grad_accum", Key::boolean, "true or false", "true", "run pipelines with too few micro-batches last"},
    {"search.rules", "memory", Key::boolean, "true or false", "true", "skip layouts that need as much as one that ran out of memory, or that fit with less than 0.3 %"},
});

constexpr auto site_table = std::to_array<KeyInfo>({
    {"", "backend", Key::special, "local or slurm", "slurm where sbatch is on PATH", "where sweeps run"},
    {"", "env", Key::special, "a map of texts", "", "environment variables of the ranks; part of a trial's identity"},
    {"", "container", Key::special, "a map", "", "the container of all sweeps; keys as in a sweep file"},
    {"", "pass_env", Key::texts, "a list of names", "", "variables of your shell that the ranks get"},
    {"", "modules", Key::texts, "a list of texts", "", "modules to load, in order"},
    {"", "prolog", Key::texts, "a list of texts", "", "shell lines of your own in the job script"},
    {"", "template", Key::text, "an absolute path or a name", "lane.sbatch", "job script template: your own, or lane-sbcast.sbatch, which is built in"},
    {"", "launch", Key::special, "agents or srun", "agents", "one srun per allocation, or one per attempt (for PMI or MPI)"},
    {"", "strict", Key::boolean, "true or false", "false", "submit held, and release once the job id is stored"},
    {"", "slurm", Key::special, "a map of sbatch options", "", "long options of sbatch, see below"},
    {"", "slurmrestd", Key::special, "a map", "", "reach Slurm over REST, see slurmrestd"},
    {"", "notify", Key::special, "a map", "", "tell a webhook, see notify"},
    {"slurmrestd", "url", Key::text, "an address", "", "http://host:port, https://host or unix:/path"},
    {"slurmrestd", "token_file", Key::text, "an absolute path", "scontrol token", "file with the token, mode 0600"},
    {"slurmrestd", "plain_http", Key::boolean, "true or false", "false", "the token may go unencrypted to another machine"},
    {"slurmrestd", "user", Key::name, "a name", "you", "user of the requests"},
    {"notify", "url", Key::text, "an address", "", "https, or http on this machine"},
    {"notify", "url_file", Key::text, "an absolute path", "", "file that holds a secret address, mode 0600"},
    {"notify", "header_file", Key::text, "an absolute path", "", "file with one header line, mode 0600"},
    {"notify", "events", Key::texts, "a list", "all", "sweep_ended, stalled, node_quarantined, blind"},
});
// clang-format on

std::vector<std::string_view> keys_in(std::span<const KeyInfo> table,
                                      std::string_view section) {
  std::vector<std::string_view> keys;
  for (const auto& each : table) {
    if (each.section == section) keys.push_back(each.key);
  }
  return keys;
}

}  // namespace

std::span<const KeyInfo> sweep_keys() {
  return sweep_table;
}

std::vector<std::string_view> keys_of(std::string_view section) {
  return keys_in(sweep_table, section);
}

std::span<const KeyInfo> site_keys() {
  return site_table;
}

std::vector<std::string_view> site_keys_of(std::string_view section) {
  return keys_in(site_table, section);
}

}  // namespace shardsweep::config
