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


def main():
    trainer, checkout = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (nursery.MEMORY_B, nursery.MEMORY_B))
    os.chdir(checkout)
    sys.path.insert(0, checkout)
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        ask = {one.__name__: one for one in (torchtitan, picotron, deepspeed, megatron, nanotron)}[trainer]()
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
