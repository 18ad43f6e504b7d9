// SPDX-License-Identifier: Apache-2.0
// Several errors of Python in one log: chained ones, those of a group, and those that a logger
// printed. One of them counts.
#include "causes/failed_log.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace shardsweep;

TEST_CASE("of an error raised while another was handled the handler tells which one counts") {
  const std::string trace = "Traceback (most recent call last):\n";
  const auto frame = [](int line, const std::string& name, const std::string& source) {
    return "  File \"t.py\", line " + std::to_string(line) + ", in " + name + "\n    " + source +
        "\n";
  };
  const std::string handling =
      "\nDuring handling of the above exception, another exception occurred:\n\n";
  // Megatron-DeepSpeed calls its attention again, without an argument that it may not know.
  const std::string first = trace + frame(10, "forward", "self.attention(") + frame(3, "f", "x") +
      "TypeError: f() got an unexpected keyword argument 'cpu_offloading'\n";
  const auto then = [&](const std::string& handler, const std::string& name = "g") {
    const std::string outer = frame(90, "forward", "a = layer(") + frame(2, "forward", "y = z");
    return find_cause(first + handling + trace + frame(1, "main", "model(x)") + outer +
            frame(14, "forward", handler) + (name.empty() ? "" : frame(4, name, "y")) +
            "RuntimeError: a view is odd\n",
        {});
  };
  CHECK(then("self.attention(")->line == "RuntimeError: a view is odd");
  CHECK(then("return eager(x)")->line == "RuntimeError: a view is odd");
  CHECK(then("out = eager(x)")->line == "RuntimeError: a view is odd");
  CHECK(then("self.attention_slowly(")->line == "RuntimeError: a view is odd");
  CHECK(then("raise RuntimeError(f'x = {x}')", "")->rule == "argument-unexpected");
  CHECK(then("self.writer.close()")->rule == "argument-unexpected");
  CHECK(then("self.report(error)", "shutdown")->rule == "argument-unexpected");
  CHECK(then("return self.end(error)", "_teardown")->rule == "argument-unexpected");
  const std::string memory =
      trace + frame(10, "forward", "attend(x)") + "torch.OutOfMemoryError: CUDA out of memory.\n";
  const std::string odd_report = "AttributeError: 'str' object has no attribute 'x'\n";
  CHECK(
      find_cause(
          memory + handling + trace + frame(14, "forward", "report = told(error)") + odd_report, {})
          ->rule == "torch-oom");
  // Clean-up explains nothing, even if only the error of it is known.
  const std::string odd =
      trace + frame(10, "run", "train()") + "IndexError: 7\n" + handling + trace;
  const std::string closed = "ValueError: closed file\n";
  CHECK(find_cause(odd + frame(14, "run", "await log.close()") + closed, {})->line ==
      "IndexError: 7");
  CHECK(find_cause(
            odd + frame(9, "run", "with Log() as log:") + frame(2, "__exit__", "x") + closed, {})
            ->line == "IndexError: 7");
  // A bare call is another way as well, unless its name tells that it cleans up.
  CHECK(find_cause(odd + frame(14, "run", "self.run_slowly()") + closed, {})->rule ==
      "refused-value-error");
}

TEST_CASE("the direct cause of an unknown error is the cause") {
  const std::string trace = "Traceback (most recent call last):\n  File \"t.py\", line 1, in x\n";
  const std::string direct =
      "\nThe above exception was the direct cause of the following exception:\n\n";
  const std::string unknown = direct + trace + "RuntimeError: worker 0 is lost\n";
  CHECK(find_cause(trace + "IndexError: 7\n" + unknown, {})->line == "IndexError: 7");
  CHECK(find_cause(trace + "OSError: Connection refused\n" + unknown, {})->rule ==
      "connection-refused");
}

TEST_CASE("of an exception group the strongest error counts, and notes below an error are none") {
  const auto raised = [](const std::string& error) {
    return "    | Traceback (most recent call last):\n    |   File \"t.py\", line 1, in x\n    | " +
        error + "\n";
  };
  const auto member = [&](int number, const std::string& error) {
    return (number == 1 ? "  +-" : "    ") + ("+---------------- " + std::to_string(number)) +
        " ----------------\n" + raised(error);
  };
  const std::string head =
      "  + Exception Group Traceback (most recent call last):\n"
      "  |   File \"t.py\", line 9, in <module>\n"
      "  | ExceptionGroup: 2 workers failed (2 sub-exceptions)\n";
  const std::string chain =
      "    | \n    | The above exception was the direct cause of the following exception:\n    | "
      "\n";
  const std::string memory = "torch.OutOfMemoryError: CUDA out of memory. Tried";
  CHECK(find_cause(head + member(1, memory) + member(2, "IndexError: 7"), {})->rule == "torch-oom");
  CHECK(find_cause(head + member(1, "IndexError: 7") + member(2, memory), {})->rule == "torch-oom");
  const std::string lost = chain + raised("RuntimeError: lost");
  CHECK(find_cause(head + member(1, "IndexError: 7") + lost, {})->line == "IndexError: 7");
  const std::string trace = "Traceback (most recent call last):\n  File \"t.py\", line 1, in x\n";
  const auto noted = find_cause(trace + "IndexError: 7\nin shard 3\nValueError: 4097 tokens\n", {});
  CHECK(noted->line == "IndexError: 7");
}

TEST_CASE("an error that a logger printed was survived if its writer goes on") {
  const std::string trace = "Traceback (most recent call last):\n  File \"t.py\", line 1, in x\n";
  const std::string error = trace + "FileNotFoundError: no such file: a\n";
  const std::string logged = "2026-11-30 04:58:43,031 ERROR trainer: no checkpoint\n" + error;
  const std::string step = "step: 5 loss: 0.1\n";
  const std::string killed = "srun: error: n7: task 3: Killed\n";
  CHECK(find_cause(logged + step + step + killed, {})->rule == "killed-with-another");
  CHECK_FALSE(find_cause(logged + "Training finished\n", {}));
  CHECK_FALSE(find_cause(logged + step + step + "Training finished\n", {}));
  // Late output of a program may stand behind an error that ended it: it counts if no other does.
  CHECK(find_cause(logged + step + step, {})->line.starts_with("FileNotFoundError"));
  const std::string chain = "\nDuring handling of the above exception, another occurred:\n\n";
  CHECK(
      find_cause(logged + chain + error + step + step + killed, {})->rule == "killed-with-another");
  CHECK(find_cause(logged + step + killed, {})->line.starts_with("FileNotFoundError"));
  CHECK(find_cause(error + step + step + killed, {})->line.starts_with("FileNotFoundError"));
  CHECK(find_cause(logged + step + step + trace + "IndexError: 7\n", {})->line == "IndexError: 7");
  // One that nobody logged counts until more steps stand behind it than a pipe holds back.
  std::string steps;
  while (steps.size() < 20000)
    steps += step;
  CHECK(find_cause(error + steps + killed, {})->rule == "killed-with-another");
  CHECK(find_cause(error + steps, {})->line.starts_with("FileNotFoundError"));
}
