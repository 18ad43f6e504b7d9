# SPDX-License-Identifier: Apache-2.0
"""Asks a trainer's own parser for layouts: parse.py TRAINER CHECKOUT, in a root with PyTorch.

Each line of the input is JSON: the words behind the program, its files by name, the number of ranks, and what
`--emit` prints, which takes the place of what the words or files say of it. Each line of the output is what the
parser says against it, or yes. A parser's yes is less than a start.
"""
import ast
import contextlib
import io
import json
import os
import re
import resource
import shlex
import sys
import types

import nursery


def merged(config, emitted):
    """A configuration in which all that the other one names is as there."""
    if not isinstance(config, dict) or not isinstance(emitted, dict):
        return emitted
    return config | {key: merged(config.get(key, {}), one) for key, one in emitted.items()}


def torchtitan():
    sys.modules["torch.utils.tensorboard"] = types.SimpleNamespace(SummaryWriter=object)
    import trstub  # noqa: F401
    from torchtitan.config.manager import ConfigManager
    from torchtitan.distributed import ParallelDims

    def ask(argv, _, world, emitted):
        if emitted:  # its options since August 2026 stand behind the file's text; recompute is of the recipe
            argv = [one for one in argv if not one.startswith(("--parallelism.", "--training.num", "--training.max", "activation"))]
            argv += re.findall(r"(?m)^# +(--.*)$", emitted)
        config = ConfigManager().parse_args(argv[2:])  # behind -m torchtitan.train
        degrees = ParallelDims.from_config(config.parallelism, world)
        told, dp = config.training, degrees.dp_replicate * degrees.dp_shard
        parts = config.parallelism.num_pp_microbatches if degrees.pp > 1 else 1
        assert told.num_tokens_per_train_step % (told.num_tokens_per_microbatch_per_dp_rank * parts * dp) == 0
    return ask


def picotron():
    """It has none: all keys that train.py takes, and what it asserts of them."""
    with open("train.py", encoding="utf-8") as program:
        tree = ast.parse(program.read())
    keys = [one for one in ast.walk(tree) if isinstance(one, ast.Subscript) and ast.unparse(one).startswith("config[")]
    claims = [one for one in ast.walk(tree) if isinstance(one, ast.Assert) and "config[" in ast.unparse(one)]

    def ask(_, files, world, emitted):
        config = json.loads(next(iter(files.values())))
        names = {"config": merged(config, json.loads(emitted or "{}")), "world_size": world}
        for one in keys:
            if "load_path" not in ast.unparse(one):
                eval(ast.unparse(one), {}, names)
        for one in claims:
            assert eval(ast.unparse(one.test), {}, names), ast.unparse(one)
    return ask


def deepspeed():
    from deepspeed import comm
    from deepspeed.runtime.config import DeepSpeedConfig
    from megatron.arguments import parse_args, validate_args

    def ask(argv, files, world, emitted):
        for name, text in files.items():
            os.makedirs(os.path.dirname(name), exist_ok=True)
            with open(name, "w", encoding="utf-8") as kept:
                kept.write(text)
        os.environ |= {"WORLD_SIZE": str(world), "RANK": "0", "LOCAL_RANK": "0"}
        sys.argv = argv
        args = parse_args(lambda parser: parser)
        validate_args(args)
        comm.get_rank = lambda: 0  # without one it counts one rank
        ranks = types.SimpleNamespace(get_data_parallel_world_size=lambda: world // args.tensor_model_parallel_size)
        told = merged(json.loads(next(iter(files.values()))), json.loads(emitted or "{}"))
        config = DeepSpeedConfig(told, mpu=ranks)
        assert config.train_batch_size == args.global_batch_size
    return ask


def megatron():
    from megatron.training.arguments import core_transformer_config_from_args, parse_args, validate_args

    def ask(argv, _, world, emitted):
        if emitted:
            at, to = argv.index("--max-position-embeddings") + 2, argv.index("--mock-data")
            argv = [*argv[:at], *shlex.split(emitted), *argv[to:]]
        os.environ |= {"WORLD_SIZE": str(world), "RANK": "0", "LOCAL_RANK": "0"}
        sys.argv = argv
        args = parse_args(None, False)
        validate_args(args)
        args.apply_rope_fusion = False  # for want of Transformer Engine here
        core_transformer_config_from_args(args)  # which asserts as much again
    return ask


def nanotron():
    import yaml
    from nanotron.config import get_config_from_file

    def ask(_, files, world, emitted):
        name = f"{os.environ['TMPDIR']}/layout.yaml"
        with open(name, "w", encoding="utf-8") as kept:
            told = yaml.safe_load(next(iter(files.values())))
            yaml.safe_dump(merged(told, yaml.safe_load(emitted) or {}), kept)
        config = get_config_from_file(name)
        degrees = config.parallelism
        assert degrees.dp * degrees.tp * degrees.pp * degrees.context_parallel_size == world
    return ask


def written(files):
    """The path of the only file, which is there."""
    name, text = next(iter(files.items()))
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "w", encoding="utf-8") as kept:
        kept.write(text)
    return name


def replaced(words, emitted):
    """Overrides, with those of the other text in place of their namesakes."""
    others = shlex.split(emitted)
    names = {one.split("=")[0] for one in others}
    return [one for one in words if one.split("=")[0] not in names] + others


def primus():
    """Its loader of presets, and Megatron-LM's checks of what comes of them."""
    import pathlib
    import yaml
    from megatron.training.arguments import core_transformer_config_from_args, validate_args
    from primus.backends.megatron import argument_builder
    from primus.core.config.primus_config import get_module_config, load_primus_config

    def ask(_, files, world, emitted):
        name = written(files)
        told = yaml.safe_load(next(iter(files.values())))
        with open(name, "w", encoding="utf-8") as kept:
            yaml.safe_dump(merged(told, yaml.safe_load(emitted) or {}), kept)
        os.environ |= {"WORLD_SIZE": str(world), "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
        config = load_primus_config(pathlib.Path(name), types.SimpleNamespace(config=name))
        params = get_module_config(config, "pre_trainer").params
        with open("primus/configs/modules/megatron/primus_megatron_module.yaml", encoding="utf-8") as kept:
            own = yaml.safe_load(kept)
        unknown = set(told["modules"]["pre_trainer"]["overrides"]) - own.keys() - argument_builder._load_megatron_defaults().keys()
        assert not unknown, f"it has no {unknown}"
        args = argument_builder.MegatronArgBuilder().update(params).finalize()
        validate_args(args)
        args.apply_rope_fusion = False  # for want of Transformer Engine here
        core_transformer_config_from_args(args)
    return ask


def olmo_core():
    import runpy
    import olmo_core.distributed.parallel as parallel
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore
    script = runpy.run_path("src/examples/llm/train.py", run_name="script")

    def ask(argv, _, world, emitted):
        sys.argv = ["train.py", *replaced(argv[1:], emitted)]
        config = script["build_config"](*script["parser_args"]())
        told = config.train_module
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
        parallel._WORLD_MESH = None
        mesh = parallel.build_world_mesh(dp=told.dp_config, tp=told.tp_config, cp=told.cp_config, pp=told.pp_config,
                                         ep=told.ep_config, device_type="cpu")
        dp = parallel.get_dp_mesh(mesh).size()
        assert config.data_loader.global_batch_size % (told.rank_microbatch_size * dp) == 0
        if told.pp_config:
            told.pp_config.get_split_points(config.model.n_layers)
        assert config.model.num_params > 0
    return ask


def axolotl():
    """Its schema, with keys of its own alone, and its split of the GPUs."""
    import yaml
    from axolotl.utils.distributed import _get_parallel_config_kwargs
    from axolotl.utils.schemas.config import AxolotlConfigWCapabilities

    def ask(_, files, world, emitted):
        told = merged(yaml.safe_load(next(iter(files.values()))), yaml.safe_load(emitted) or {})
        unknown = told.keys() - AxolotlConfigWCapabilities.model_fields.keys()
        assert not unknown, f"it has no {unknown}"
        config = AxolotlConfigWCapabilities(
            **{key: one for key, one in told.items() if one is not None}, env_capabilities={"torch_version": "2.12.0"},
            capabilities={"bf16": True, "fp8": True, "n_gpu": world, "compute_capability": "sm_90", "tf32": True})
        sizes = _get_parallel_config_kwargs(world, config.tensor_parallel_size, config.context_parallel_size,
                                            config.dp_shard_size, config.dp_replicate_size, bool(config.fsdp_config))
        product = 1
        for one in sizes.values():
            product *= one
        assert product == world, sizes
    return ask


def ms_swift():
    """The types and choices of its words. What follows from them needs a model of Hugging Face."""
    from swift.megatron.arguments import MegatronPretrainArguments
    from transformers import HfArgumentParser
    parser = HfArgumentParser(MegatronPretrainArguments)

    def ask(argv, _, world, emitted):
        words = [part for one in argv[2:] for part in (one.split("=", 1) if one.startswith("--") else [one])]
        others = [part for one in shlex.split(emitted) for part in one.split("=", 1)]
        told, rest = parser.parse_known_args([*words, *others])
        assert not rest, rest
        parts = told.tensor_model_parallel_size * told.pipeline_model_parallel_size * told.context_parallel_size
        assert world % parts == 0 and told.global_batch_size % (world // parts * told.micro_batch_size) == 0
        experts = told.expert_model_parallel_size * told.expert_tensor_parallel_size * told.pipeline_model_parallel_size
        assert world % experts == 0
    return ask


def main():
    trainer, checkout = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (nursery.MEMORY_B, nursery.MEMORY_B))
    os.chdir(checkout)
    sys.path.insert(0, checkout)
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        ask = {one.__name__: one for one in (
            torchtitan, picotron, deepspeed, megatron, nanotron, primus, olmo_core, axolotl, ms_swift)}[trainer.replace("-", "_")]()
    for line in sys.stdin:
        told = json.loads(line)
        os.environ |= told["env"]
        said = ""
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as heard:
            try:
                ask(told["argv"], told["files"], told["world"], told["emitted"])
            except (Exception, SystemExit) as error:
                said = f"{type(error).__name__}: {error} {heard.getvalue()[-600:] if isinstance(error, SystemExit) else ''}"
        print(" ".join(said.split()) or "yes", file=out, flush=True)


if __name__ == "__main__":
    main()
