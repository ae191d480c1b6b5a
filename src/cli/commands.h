// The subcommands of the command line.
//
// What: each `add_NAME` registers one subcommand with its options and a callback that does the work
//   while the arguments are parsed. One file per subcommand; `main.cc` lists them all in the order
//   of the help text. The options of a subcommand live in a shared_ptr that its callback captures.
// Units: none. Ownership: `app` and `exit_code` outlive the parse.
// Threading: the main thread.
// Errors: a callback reports one line through `report` (cli/output.h) and stores what that returns
//   in `exit_code`: 0 done, 1 failed, 2 wrong usage. It never throws, nor calls exit.
#ifndef UZRAM_CLI_COMMANDS_H_
#define UZRAM_CLI_COMMANDS_H_

namespace CLI {
class App;
}

namespace uzram::cli {

void add_start(CLI::App& app, int& exit_code);
void add_stop(CLI::App& app, int& exit_code);
void add_reset(CLI::App& app, int& exit_code);
void add_list(CLI::App& app, int& exit_code);
void add_stat(CLI::App& app, int& exit_code);
void add_get(CLI::App& app, int& exit_code);
void add_set(CLI::App& app, int& exit_code);
void add_attach(CLI::App& app, int& exit_code);
void add_detach(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);

// Parses the arguments, runs the subcommand that they name; the exit status of the program.
int run(int argc, const char* const* argv);

}  // namespace uzram::cli

#endif  // UZRAM_CLI_COMMANDS_H_
