# SPDX-License-Identifier: Apache-2.0
"""Asks a trainer's own parser for layouts: parse.py TRAINER CHECKOUT, in a root with PyTorch.

Each line of the input is JSON: the words behind the program, its files by name, and the number of ranks. Each line of
the output is what the parser says against it, or empty. A parser's yes is less than a start.
"""
import ast
import contextlib
import io
import json
import os
import sys
import types


def torchtitan():
    sys.modules["torch.utils.tensorboard"] = types.SimpleNamespace(SummaryWriter=object)
    import trstub  # noqa: F401
    from torchtitan.config.manager import ConfigManager
    from torchtitan.distributed import ParallelDims

    def ask(argv, _, world):
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

    def ask(_, files, world):
        names = {"config": json.loads(next(iter(files.values()))), "world_size": world}
        for one in keys:
            if "load_path" not in ast.unparse(one):
                eval(ast.unparse(one), {}, names)
        for one in claims:
            assert eval(ast.unparse(one.test), {}, names), ast.unparse(one)
    return ask


def deepspeed():
    from deepspeed.runtime.config import DeepSpeedConfig
    from megatron.arguments import parse_args, validate_args

    def ask(argv, files, world):
        for name, text in files.items():
            os.makedirs(os.path.dirname(name), exist_ok=True)
            with open(name, "w", encoding="utf-8") as kept:
                kept.write(text)
        os.environ |= {"WORLD_SIZE": str(world), "RANK": "0", "LOCAL_RANK": "0"}
        sys.argv = argv
        args = parse_args(lambda parser: parser)
        validate_args(args)
        ranks = types.SimpleNamespace(get_data_parallel_world_size=lambda: world // args.tensor_model_parallel_size)
        config = DeepSpeedConfig(json.loads(next(iter(files.values()))), mpu=ranks)
        assert config.train_batch_size == args.global_batch_size
    return ask


def megatron():
    from megatron.training.arguments import parse_args, validate_args

    def ask(argv, _, world):
        os.environ |= {"WORLD_SIZE": str(world), "RANK": "0", "LOCAL_RANK": "0"}
        sys.argv = argv
        validate_args(parse_args(None, False))
    return ask


def nanotron():
    from nanotron.config import get_config_from_file

    def ask(_, files, world):
        name = f"{os.environ['TMPDIR']}/layout.yaml"
        with open(name, "w", encoding="utf-8") as kept:
            kept.write(next(iter(files.values())))
        config = get_config_from_file(name)
        degrees = config.parallelism
        assert degrees.dp * degrees.tp * degrees.pp * degrees.context_parallel_size == world
    return ask


def main():
    trainer, checkout = sys.argv[1:]
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
                ask(told["argv"], told["files"], told["world"])
            except (Exception, SystemExit) as error:
                said = f"{type(error).__name__}: {error} {heard.getvalue()[-600:] if isinstance(error, SystemExit) else ''}"
        print(" ".join(said.split()) or "yes", file=out, flush=True)


if __name__ == "__main__":
    main()
