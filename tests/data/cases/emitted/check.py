#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what --emit prints as the trainer would: check.py TRAINER FILE. Every key has to be one
that the trainer knows, in its place and of its type. Keys and flags were noted from the trainers'
own sources (runner/TRAINERS.md has their versions)."""
import argparse
import json
import sys
import tomllib

MEGATRON = {  # flag: what argparse makes of its value
    "--tensor-model-parallel-size": int,
    "--pipeline-model-parallel-size": int,
    "--context-parallel-size": int,
    "--expert-model-parallel-size": int,
    "--micro-batch-size": int,
    "--global-batch-size": int,
    "--seq-length": int,
    "--num-distributed-optimizer-instances": int,
    "--num-virtual-stages-per-pipeline-rank": int,
    "--cp-comm-type": ("p2p", "a2a", "allgather", "a2a+p2p"),
    "--use-tp-pp-dp-mapping": None,
    "--sequence-parallel": None,
    "--use-distributed-optimizer": None,
    "--use-megatron-fsdp": None,
    "--ckpt-format": ("torch", "torch_dist", "torch_dcp", "fsdp_dtensor"),
    "--data-parallel-sharding-strategy": ("no_shard", "optim", "optim_grads", "optim_grads_params"),
    "--overlap-grad-reduce": None,
    "--overlap-param-gather": None,
    "--recompute-granularity": ("full", "selective"),
    "--recompute-method": ("uniform", "block"),
    "--recompute-num-layers": int,
    "--recompute-modules": list,
    "--expert-tensor-parallel-size": int,
    "--decoder-first-pipeline-num-layers": int,
    "--decoder-last-pipeline-num-layers": int,
    "--cuda-graph-impl": ("none", "local", "transformer_engine", "full_iteration"),
    "--cuda-graph-modules": list,
    "--optimizer-cpu-offload": None,
    "--use-precision-aware-optimizer": None,
}
BRIDGE = {
    "model.tensor_model_parallel_size": int,
    "model.pipeline_model_parallel_size": int,
    "model.context_parallel_size": int,
    "model.expert_model_parallel_size": int,
    "model.virtual_pipeline_model_parallel_size": int,
    "model.cp_comm_type": str,
    "dist.use_tp_pp_dp_mapping": bool,
    "model.sequence_parallel": bool,
    "model.seq_length": int,
    "dataset.seq_length": int,
    "model.recompute_granularity": str,
    "model.recompute_method": str,
    "model.recompute_num_layers": int,
    "model.recompute_modules": list,
    "model.expert_tensor_parallel_size": int,
    "model.num_layers_in_first_pipeline_stage": int,
    "model.num_layers_in_last_pipeline_stage": int,
    "model.cuda_graph_impl": str,
    "model.cuda_graph_modules": list,
    "optimizer.optimizer_cpu_offload": bool,
    "optimizer.use_precision_aware_optimizer": bool,
    "train.micro_batch_size": int,
    "train.global_batch_size": int,
    "ddp.use_distributed_optimizer": bool,
    "ddp.num_distributed_optimizer_instances": int,
    "ddp.data_parallel_sharding_strategy": str,
    "ddp.overlap_grad_reduce": bool,
    "ddp.overlap_param_gather": bool,
    "dist.use_megatron_fsdp": bool,
    "checkpoint.ckpt_format": str,
}
TORCHTITAN = {
    "training": {
        "local_batch_size": int,
        "global_batch_size": int,
        "seq_len": int,
        "enable_cpu_offload": bool,
    },
    "parallelism": {
        "data_parallel_replicate_degree": int,
        "data_parallel_shard_degree": int,
        "tensor_parallel_degree": int,
        "pipeline_parallel_degree": int,
        "pipeline_parallel_microbatch_size": int,
        "pipeline_parallel_schedule": str,
        "pipeline_parallel_first_stage_less_layers": int,
        "pipeline_parallel_last_stage_less_layers": int,
        "expert_tensor_parallel_degree": int,
        "context_parallel_degree": int,
        "expert_parallel_degree": int,
        "fsdp_reshard_after_forward": str,
    },
    "activation_checkpoint": {"mode": str},
}
DEEPSPEED = {
    "train_batch_size": int,
    "train_micro_batch_size_per_gpu": int,
    "gradient_accumulation_steps": int,
    "tensor_parallel": {"autotp_size": int},
    "zero_optimization": {
        "stage": int,
        "offload_optimizer": {"device": str},
        "offload_param": {"device": str},
    },
}
PICOTRON = {
    "distributed": {"tp_size": int, "cp_size": int, "pp_size": int, "dp_size": int, "pp_engine": str},
    "training": {"micro_batch_size": int, "gradient_accumulation_steps": int, "seq_length": int},
}
NANOTRON = {
    "parallelism": {
        "dp": int,
        "pp": int,
        "tp": int,
        "context_parallel_size": int,
        "expert_parallel_size": int,
        "pp_engine": str,
        "tp_mode": str,
        "recompute_layer": bool,
    },
    "tokens": {"micro_batch_size": int, "batch_accumulation_per_replica": int, "sequence_length": int},
    "optimizer": {"zero_stage": int},
}
NEOX = {
    "pipe_parallel_size": int,
    "model_parallel_size": int,
    "sequence_parallel": bool,
    "train_micro_batch_size_per_gpu": int,
    "gradient_accumulation_steps": int,
    "checkpoint_activations": bool,
    "checkpoint_num_layers": int,
    "seq_length": int,
    "max_position_embeddings": int,
    "zero_optimization": {"stage": int},
}
FOUNDRY = {
    "global_train_batch_size": int,
    "device_train_microbatch_size": int,
    "max_seq_len": int,
    "fsdp_config": {"sharding_strategy": str, "activation_checkpointing": bool},
    "tp_config": {"strategy": str, "tensor_parallel_degree": int},
}


def check(found, schema, place=""):
    for key, value in found.items():
        assert key in schema, f"{place}{key} is no key of this trainer"
        if isinstance(schema[key], dict):
            check(value, schema[key], f"{place}{key}.")
        else:
            assert type(value) is schema[key], f"{place}{key}: {value!r}"


def documents(text):
    """JSON objects that follow each other."""
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        if "config" in value:
            assert value["trial"] and "\n" not in text[:at].splitlines()[-1]
            value = value["config"]
        yield value


def blocks(text):
    """What follows each comment."""
    parts = text.split("# ")
    return [part.split("\n", 1)[1] for part in parts[1:]]


def megatron(text):
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for flag, kind in MEGATRON.items():
        if kind is None:
            parser.add_argument(flag, action="store_true")
        elif kind is list:
            parser.add_argument(flag, nargs="+")
        elif isinstance(kind, tuple):
            parser.add_argument(flag, choices=kind)
        else:
            parser.add_argument(flag, type=kind)
    for block in blocks(text):
        found = parser.parse_args(block.split())
        # megatron/training/arguments.py:1169 at d98e8a64dd.
        assert not found.use_megatron_fsdp or found.ckpt_format == "fsdp_dtensor"
        # The same file, line 1884, and what precision-aware asks of its optimizer.
        assert not found.optimizer_cpu_offload or found.use_precision_aware_optimizer
        assert not found.use_precision_aware_optimizer or found.use_distributed_optimizer
        yield found


def bridge(text):
    for block in blocks(text):
        found = {}
        for word in block.split():
            key, value = word.split("=", 1)
            kind = BRIDGE[key]
            if value == "null":
                assert key.startswith("model.recompute_"), key
                found[key] = None
            elif kind is list:
                found[key] = value.strip("[]").split(",")
            else:
                found[key] = {"true": True, "false": False}[value] if kind is bool else kind(value)
        yield found


def yaml_of(schema):
    def read(text):
        import yaml

        for block in blocks(text):
            found = yaml.safe_load(block)
            check(found, schema)
            yield found

    return read


def toml(text):
    for block in blocks(text):
        found = tomllib.loads(block)
        check(found, TORCHTITAN)
        yield found


def json_of(schema):
    def read(text):
        for found in documents(text):
            check(found, schema)
            if schema is DEEPSPEED:
                samples = found["train_micro_batch_size_per_gpu"] * found["gradient_accumulation_steps"]
                assert found["train_batch_size"] % samples == 0
            yield found

    return read


READERS = {
    "megatron": megatron,
    "megatron-bridge": bridge,
    "nanotron": yaml_of(NANOTRON),
    "torchtitan": toml,
    "deepspeed": json_of(DEEPSPEED),
    "gpt-neox": yaml_of(NEOX),
    "picotron": json_of(PICOTRON),
    "llm-foundry": yaml_of(FOUNDRY),
}
read = list(READERS[sys.argv[1]](open(sys.argv[2]).read()))
assert read, "nothing was emitted"
print(len(read))
