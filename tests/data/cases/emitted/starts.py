#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what `render` prints of a sweep of `new --trainer` as that trainer's parser would:
starts.py TRAINER FILE. Every flag and key has to be one that the trainer knows, of its type, and its
own checks have to hold. Each table and each rule was noted from the file and commit that it names.
Prints the number of points."""
import json
import shlex
import sys

import yaml

NUMBER = (int, float)

# huggingface/nanotron 2411b022, src/nanotron/config/: config.py, parallelism_config.py,
# models_config.py (Qwen2Config). dacite is strict: a key that no dataclass has is refused.
NANOTRON = {
    "general": {"project": str, "run": str, "seed": int, "ignore_sanity_checks": bool},
    "model": {
        "dtype": ("bfloat16", "float32", "float16"),
        "init_method": {"std": float},
        "make_vocab_size_divisible_by": int,
        "model_config": {
            "is_qwen2_config": bool, "num_hidden_layers": int, "hidden_size": int, "intermediate_size": int,
            "num_attention_heads": int, "num_key_value_heads": int, "vocab_size": int,
            "max_position_embeddings": int, "tie_word_embeddings": bool,
        },
    },
    "parallelism": {
        "dp": int, "tp": int, "pp": int, "context_parallel_size": int, "expert_parallel_size": int,
        "pp_engine": ("1f1b", "afab"), "tp_mode": ("REDUCE_SCATTER", "ALL_REDUCE"),
        "tp_linear_async_communication": bool, "recompute_layer": bool,
    },
    "tokens": {
        "sequence_length": int, "micro_batch_size": int, "batch_accumulation_per_replica": int, "train_steps": int,
        "val_check_interval": int,
    },
    "optimizer": {
        "zero_stage": int, "weight_decay": float, "clip_grad": float, "accumulate_grad_in_fp32": bool,
        "optimizer_factory": {"name": str, "adam_beta1": float, "adam_beta2": float, "adam_eps": float,
                              "torch_adam_is_fused": bool},
        "learning_rate_scheduler": {"learning_rate": float, "lr_warmup_steps": int,
                                    "lr_warmup_style": ("linear", "constant"),
                                    "lr_decay_style": ("linear", "cosine", "1-sqrt"), "min_decay_lr": float},
    },
    "data_stages": [{"name": str, "start_training_step": int,
                     "data": {"dataset": type(None), "num_loading_workers": int, "seed": int}}],
    "checkpoints": {"checkpoint_interval": int, "checkpoints_path": str, "save_initial_state": bool,
                    "save_final_state": bool},
    "logging": {"iteration_step_info_interval": int, "log_level": str, "log_level_replica": str},
}

# huggingface/picotron 59714b1, template/base_config.json; train.py reads each of them.
PICOTRON = {
    "distributed": {"tp_size": int, "cp_size": int, "pp_size": int, "dp_size": int, "pp_engine": ("1f1b", "afab"),
                    "backend": str, "use_cpu": bool},
    "model": {"name": str, "num_hidden_layers": int, "num_attention_heads": int, "num_key_value_heads": int,
              "dtype": str, "use_flash_attention": bool, "use_fused_adam": bool},
    "training": {"seed": int, "learning_rate": float, "total_train_steps": int, "seq_length": int,
                 "micro_batch_size": int, "gradient_accumulation_steps": int, "num_samples": int, "max_tokens": int},
    "dataset": {"name": str, "subset_name": type(None), "num_workers": int, "num_proc": int},
    "checkpoint": {"save_dir": str, "save_frequency": int, "load_path": str},
    "logging": {"use_wandb": bool, "project_name": str, "run_name": type(None)},
    "environment": {"OMP_NUM_THREADS": str, "TOKENIZERS_PARALLELISM": str, "FLASH_ATTEN": str,
                    "HF_TOKEN": type(None)},
}

# deepspeedai/Megatron-DeepSpeed 4efb479d, megatron/arguments.py; the last two are DeepSpeed's own
# (deepspeed.add_config_arguments). A list: the words that argparse takes; None: no value.
MEGATRON_DEEPSPEED = {
    "--num-layers": int, "--hidden-size": int, "--ffn-hidden-size": int, "--num-attention-heads": int,
    "--use-flash-attn-v2": None, "--use-rotary-position-embeddings": None, "--swiglu": None,
    "--normalization": ["layernorm", "rmsnorm"], "--disable-bias-linear": None,
    "--untie-embeddings-and-output-weights": None, "--attention-dropout": float, "--hidden-dropout": float,
    "--seq-length": int, "--max-position-embeddings": int, "--bf16": None, "--fp16": None, "--tensor-model-parallel-size": int,
    "--micro-batch-size": int, "--global-batch-size": int, "--deepspeed-activation-checkpointing": None,
    "--recompute-granularity": ["full", "selective"], "--recompute-method": ["uniform", "block"],
    "--recompute-num-layers": int, "--data-path": str, "--split": str, "--tokenizer-type": ["NullTokenizer"],
    "--vocab-size": int, "--lr": float, "--lr-decay-style": ["constant", "linear", "cosine", "inverse-square-root"],
    "--train-iters": int, "--eval-iters": int, "--eval-interval": int, "--log-interval": int,
    "--no-pipeline-parallel": None, "--zero-stage": int, "--deepspeed": None, "--deepspeed_config": str,
}
# deepspeedai/DeepSpeed 0.18, deepspeed/runtime/config.py.
DEEPSPEED = {
    "train_batch_size": int, "train_micro_batch_size_per_gpu": int, "gradient_accumulation_steps": int,
    "zero_optimization": {"stage": int}, "bf16": {"enabled": bool},
    "fp16": {"enabled": bool, "initial_scale_power": int}, "gradient_clipping": float,
    "steps_per_print": int, "log_level": ("info", "debug", "warning", "error", "critical"),
}

# EleutherAI/gpt-neox ea7aefd8, megatron/neox_arguments/: neox_args.py, deepspeed_args.py. from_dict
# refuses a key that no dataclass has.
NEOX = {
    "num_layers": int, "hidden_size": int, "intermediate_size": int, "num_attention_heads": int, "num_kv_heads": int,
    "activation": ("gelu", "geglu", "relu", "swiglu", "silu"), "norm": ("layernorm", "rmsnorm", "scalenorm"),
    "pos_emb": ("learned", "rotary", "sinusoidal", "rpe", "alibi", "none"), "rotary_pct": NUMBER,
    "no_weight_tying": bool, "use_bias_in_norms": bool, "use_bias_in_attn_linear": bool, "hidden_dropout": NUMBER,
    "attention_dropout": NUMBER, "seq_length": int, "max_position_embeddings": int,
    "precision": ("fp16", "fp32", "bfloat16"), "data_types": {"grad_accum_dtype": ("fp32",)}, "global_num_gpus": int, "pipe_parallel_size": int,
    "model_parallel_size": int, "sequence_parallel": bool, "train_micro_batch_size_per_gpu": int,
    "gradient_accumulation_steps": int, "zero_optimization": {"stage": int}, "checkpoint_activations": bool,
    "checkpoint_num_layers": int, "tokenizer_type": ("CharLevelTokenizer",),
    "make_vocab_size_divisible_by": int, "data_path": str, "data_impl": ("infer", "mmap", "cached"), "split": str,
    "optimizer": {"type": str, "params": {"lr": float, "betas": list, "eps": float}},
    "lr_decay_style": ("constant", "linear", "cosine", "exponential"), "gradient_clipping": float,
    "train_iters": int, "eval_iters": int, "eval_interval": int, "checkpoint_factor": int, "log_interval": int,
    "steps_per_print": int,
}

# mosaicml/llm-foundry 8c8dd48f7, llmfoundry/utils/config_utils.py (TrainConfig),
# models/mpt/configuration_mpt.py, models/utils/config_defaults.py; composer's FSDPConfig.
FOUNDRY = {
    "max_seq_len": int, "seed": int,
    "model": {"name": ("mpt_causal_lm",), "init_device": ("meta", "mixed", "cpu"), "d_model": int, "n_heads": int,
              "n_layers": int, "expansion_ratio": int, "max_seq_len": int, "vocab_size": int, "no_bias": bool,
              "norm_type": str, "tie_word_embeddings": bool, "learned_pos_emb": bool,
              "ffn_config": {"ffn_type": ("mptmlp", "mptglu"), "ffn_hidden_size": int},
              "attn_config": {"attn_type": str, "kv_n_heads": int, "attn_impl": ("flash", "torch"), "rope": bool}},
    "tokenizer": {"name": str, "kwargs": {"model_max_length": int}},
    "train_loader": {"name": ("text",), "dataset": {"local": str, "split": str, "shuffle": bool, "max_seq_len": int},
                     "drop_last": bool, "num_workers": int},
    "optimizer": {"name": str, "lr": float, "betas": list, "eps": float, "weight_decay": float},
    "scheduler": {"name": ("constant_with_warmup", "cosine_with_warmup"), "t_warmup": str},
    "precision": ("amp_bf16", "amp_fp16", "fp32"), "global_train_batch_size": int, "device_train_microbatch_size": int,
    "fsdp_config": {"sharding_strategy": ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD"),
                    "mixed_precision": ("PURE", "DEFAULT"), "activation_checkpointing": bool,
                    "activation_checkpointing_reentrant": bool, "activation_cpu_offload": bool,
                    "limit_all_gathers": bool},
    "device_eval_batch_size": int, "max_duration": str, "eval_interval": int, "progress_bar": bool,
    "log_to_console": bool, "console_log_interval": str,
    "callbacks": {"speed_monitor": {"window_size": int}, "memory_monitor": {}},
}

# NVIDIA-NeMo/Megatron-Bridge 067f987df, scripts/training/run_recipe.py and
# src/megatron/bridge/training/config.py; names of mcore's dataclasses as its recipes set them.
BRIDGE = {
    "dataset.seq_length": int, "model.seq_length": int, "model.tensor_model_parallel_size": int,
    "model.pipeline_model_parallel_size": int, "model.context_parallel_size": int, "model.sequence_parallel": bool,
    "model.expert_model_parallel_size": int, "model.recompute_modules": [("core_attn",)],
    "train.micro_batch_size": int, "train.global_batch_size": int, "ddp.use_distributed_optimizer": bool,
    "ddp.overlap_grad_reduce": bool, "ddp.overlap_param_gather": bool,
    "model.recompute_granularity": ("full", "selective", None), "model.recompute_method": ("uniform", "block", None),
    "model.recompute_num_layers": (1, None), "train.train_iters": int, "scheduler.lr_warmup_iters": int,
    "optimizer.lr": float, "validation.eval_iters": int, "validation.eval_interval": int, "checkpoint.save": (None,),
    "checkpoint.load": (None,), "logger.log_interval": int, "logger.log_throughput": bool,
}
BRIDGE_RECIPES = ("llama3_8b_pretrain_2gpu_h100_bf16_config", "llama3_70b_pretrain_32gpu_h100_bf16_config")


def fail(what):
    sys.exit(f"starts.py: {what}")


def fits(value, kind):
    if isinstance(kind, tuple) and kind and all(isinstance(one, type) for one in kind):
        return isinstance(value, kind)
    if isinstance(kind, tuple):
        return value in kind
    if kind is float:
        return isinstance(value, NUMBER) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is not int or not isinstance(value, bool))


def check_tree(value, kind, at):
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            fail(f"{at} is no section: {value!r}")
        for key, inner in value.items():
            if key not in kind:
                fail(f"{at} has no {key}")
            check_tree(inner, kind[key], f"{at}.{key}")
        for key in kind:
            if key not in value:
                fail(f"{at} lacks {key}")
    elif isinstance(kind, list):
        for one in value:
            check_tree(one, kind[0], at)
    elif not fits(value, kind):
        fail(f"{at} is {value!r}")


def flags_of(words, known):
    """What argparse would make of them."""
    flags = {}
    at = 0
    while at < len(words):
        name, equals, value = words[at].partition("=")
        if name not in known:
            fail(f"no flag {name}")
        kind = known[name]
        if kind is None:
            if equals:
                fail(f"{name} takes no value")
            flags[name] = True
            at += 1
            continue
        if not equals:
            at += 1
            value = words[at]
        flags[name] = value if isinstance(kind, list) else kind(value)
        if isinstance(kind, list) and value not in kind:
            fail(f"{name} {value}")
        at += 1
    return flags


def load(text):
    # As their loaders: 1.0e-8 is a number, 1e-4 a text.
    return yaml.safe_load(text)


def check_bridge(words, files):
    if words[:2] != ["python3", "scripts/training/run_recipe.py"]:
        fail("another program")
    options, overrides = words[2:8], words[8:]
    # run_recipe.py: --model or --recipe, --mode of four, --dataset of DATASET_PRESETS.
    if options[0] != "--recipe" or options[1] not in BRIDGE_RECIPES:
        fail("no recipe")
    if options[2:] != ["--mode", "pretrain", "--dataset", "mock"]:
        fail("no mock data")
    values = {}
    for word in overrides:
        name, equals, value = word.partition("=")
        if not equals:
            fail(f"expected KEY=VALUE, got {word}")  # _collect_overrides
        values[name] = None if value == "null" else yaml.safe_load(value) if value != "1e-4" else 1e-4
        check_tree(values[name], BRIDGE.get(name) or fail(f"no field {name}"), name)
    tp = values["model.tensor_model_parallel_size"]
    # mcore model_parallel_config.py: sequence parallelism needs tensor parallelism.
    if values["model.sequence_parallel"] and tp == 1:
        fail("sequence parallelism without tp")
    # mcore distributed_data_parallel_config.py: only a distributed optimizer gathers.
    if values["ddp.overlap_param_gather"] and not values["ddp.use_distributed_optimizer"]:
        fail("nothing to gather")
    # mcore transformer_config.py: a method and layers go with full alone.
    full = values["model.recompute_granularity"] == "full"
    if full != (values["model.recompute_method"] is not None):
        fail("a method without full recompute")
    # config.py sync: the dataset owns the length.
    if values["dataset.seq_length"] != values["model.seq_length"]:
        fail("two lengths")


def check_nanotron(words, files):
    if words[:3] != ["python3", "run_train.py", "--config-file"]:
        fail("another program")
    config = load(files[words[3]])
    check_tree(config, NANOTRON, "config")
    model, parallel = config["model"]["model_config"], config["parallelism"]
    # config.py, Config.__post_init__.
    if model["num_attention_heads"] % parallel["tp"] or model["num_key_value_heads"] < parallel["tp"]:
        fail("heads")
    # parallel/tensor_parallel/nn.py: async communication goes with REDUCE_SCATTER.
    if parallel["tp_linear_async_communication"] and parallel["tp_mode"] != "REDUCE_SCATTER":
        fail("async without REDUCE_SCATTER")
    return parallel["dp"] * parallel["tp"] * parallel["pp"]


def check_picotron(words, files):
    if words[:3] != ["python3", "train.py", "--config"]:
        fail("another program")
    config = json.loads(files[words[3]])
    check_tree(config, PICOTRON, "config")
    degrees, training = config["distributed"], config["training"]
    # train.py: it trains until max_tokens, and then stops.
    dp = degrees["dp_size"]
    tokens = (training["total_train_steps"] * training["micro_batch_size"] * training["gradient_accumulation_steps"] *
              training["seq_length"] * dp)
    if training["max_tokens"] != tokens:
        fail(f"{training['max_tokens']} tokens, and {tokens} in its train steps")
    return dp * degrees["tp_size"] * degrees["pp_size"] * degrees["cp_size"]


def check_deepspeed(words, files):
    if words[:2] != ["python3", "pretrain_gpt.py"]:
        fail("another program")
    flags = flags_of(words[2:], MEGATRON_DEEPSPEED)
    config = json.loads(files[flags["--deepspeed_config"]])
    check_tree(config, DEEPSPEED, "config")
    for name, flag in (("train_batch_size", "--global-batch-size"),
                       ("train_micro_batch_size_per_gpu", "--micro-batch-size")):
        if config[name] != flags[flag]:
            fail(f"{name} twice")
    if config["zero_optimization"]["stage"] != flags["--zero-stage"]:
        fail("two stages")
    for dtype in ("bf16", "fp16"):
        if config[dtype]["enabled"] != (f"--{dtype}" in flags):
            fail("two types")
    # runtime/config.py _batch_assertion.
    dp, rest = divmod(config["train_batch_size"],
                      config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"])
    if rest:
        fail("the batch")
    # megatron/arguments.py: a method goes with full alone.
    if ("--recompute-method" in flags) != (flags.get("--recompute-granularity") == "full"):
        fail("a method without full recompute")
    return dp * flags["--tensor-model-parallel-size"]


def check_neox(words, files):
    if words[0] != "python3" or not words[1].endswith("/start.py"):
        fail("another program")
    compile(files[words[1]], "start.py", "exec")
    config = load(files[words[2]])
    check_tree(config, NEOX, "config")
    tp = config["model_parallel_size"]
    # arguments.py, validate_values.
    if config["num_attention_heads"] % config["num_kv_heads"] or config["num_kv_heads"] % tp:
        fail("heads")
    if config["sequence_parallel"] and tp == 1:
        fail("sequence parallelism without tp")
    # tokenizer.py, _vocab_size_with_padding of CharLevelTokenizer's 512.
    multiple = config["make_vocab_size_divisible_by"] * tp
    if -(-512 // multiple) * multiple != 128256:
        fail("another vocabulary")
    # transformer.py, ParallelLinear: of a gated one a third of intermediate_size, by mlp_multiple_of.
    if config["intermediate_size"] * 2 // 3 // 2 != 14336:
        fail("another feed-forward layer")
    # deepspeed runtime/pipe/engine.py: ZeRO-2 and -3 are refused.
    if config["zero_optimization"]["stage"] > 1:
        fail("ZeRO in a pipeline")
    return None


def check_foundry(words, files):
    # composer/cli/launcher.py.
    known = {"--nproc": int, "--world_size": int, "--node_rank": str, "--master_addr": str, "--master_port": str}
    if words[0] != "composer" or words[-2] != "scripts/train/train.py":
        fail("another program")
    flags = flags_of(words[1:-2], known)
    config = load(files[words[-1]])
    check_tree(config, FOUNDRY, "config")
    world = flags["--world_size"]
    # config_utils.py, update_batch_size_info.
    each, rest = divmod(config["global_train_batch_size"], world)
    if rest or each % config["device_train_microbatch_size"]:
        fail("the batch")
    return world


CHECKS = {"megatron-bridge": check_bridge, "nanotron": check_nanotron, "picotron": check_picotron,
          "deepspeed": check_deepspeed, "gpt-neox": check_neox, "llm-foundry": check_foundry}


def points_of(text):
    """Each point's ranks, command and files."""
    for part in text.split("\n# ") if not text.startswith("# ") else ("\n" + text).split("\n# ")[1:]:
        head, _, body = part.partition("\n")
        if " rank" in head and ", " in head:
            yield_now = {"world": int(head.split(": ")[1].split(" ")[0]), "words": shlex.split(body.split("\n\n")[0]),
                         "files": {}}
            POINTS.append(yield_now)
        elif head.startswith("file "):
            POINTS[-1]["files"][head[len("file "):]] = body
        elif POINTS and POINTS[-1]["files"] and head.split(" ")[0] not in ("environment", "folder"):
            last = list(POINTS[-1]["files"])[-1]  # a comment within a file
            POINTS[-1]["files"][last] += "\n# " + part


POINTS = []


def main():
    trainer, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        points_of(file.read())
    commands = set()
    for point in POINTS:
        world = CHECKS[trainer](point["words"], point["files"])
        if world is not None and world != point["world"]:
            fail(f"{world} ranks, and {point['world']} run")
        # The folder of the attempt is of the point itself.
        told = json.dumps([point["words"], list(point["files"].values())])
        for name in list(point["files"]) + point["words"]:
            if "/attempts/" in name:
                told = told.replace(name.rsplit("/", 1)[0], "")
        if told in commands:
            fail("two points have one command")
        commands.add(told)
    print(len(POINTS))


main()
