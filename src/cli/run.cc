#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/output.h"

namespace uzram::cli {
namespace {

// In the order of the help text.
using AddCommand = void (*)(CLI::App& app, int& exit_code);
const std::vector<AddCommand> kCommands = {};

// CLI11 takes its arguments last first. `--name=` is given as an option and an empty value, which
// the option then judges; CLI11 alone would take the next argument for the value.
std::vector<std::string> reversed_arguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    std::string argument = argv[i];
    if (argument.size() > 3 && argument.starts_with("--") && argument.ends_with('=')) {
      argument.pop_back();
      arguments.emplace_back();
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

int parse(CLI::App& app, int argc, const char* const* argv, const int& exit_code) {
  try {
    app.parse(reversed_arguments(argc, argv));
    return exit_code;
  } catch (const CLI::CallForVersion& version) {
    return finish(std::string(version.what()) + "\n");
  } catch (const CLI::Success&) {
    // --help, of the program or of a subcommand.
    return finish(app.help());
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? "" : " " + chosen.front()->get_name();
    return report({Status::invalid_argument, (chosen.empty() ? "" : chosen.front()->get_name()) +
                                                 (chosen.empty() ? "" : ": ") + error.what() +
                                                 " (see 'uzram" + command + " --help')"});
  }
}

}  // namespace

int run(int argc, const char* const* argv) {
  // A reader that went away is an error of `print`, not a death without a word.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    int exit_code = kExitDone;
    CLI::App app("A block device whose contents live in compressed memory.", "uzram");
    app.set_version_flag("--version", "uzram " UZRAM_VERSION);
    app.set_help_flag("--help,-h", "Print this help and exit");
    app.require_subcommand(1);
    for (const AddCommand add : kCommands) add(app, exit_code);
    return parse(app, argc, argv, exit_code);
  } catch (const std::exception& error) {
    return report({Status::io_error, std::string("internal error: ") + error.what()});
  }
}

}  // namespace uzram::cli
