// The subcommands of the command line.
//
// What: for each subcommand the arguments as people typed them and the function that does the work.
//   `command_line.cc` alone knows the options and their help texts (it, bench.cc and the manual are
//   all that must compile the large header of CLI11); one file per subcommand does the work.
// Units: none: numbers are judged where they are used. Ownership: values. Threading: the main
//   thread.
// Errors: each function reports one line through `report` (cli/output.h) and returns the exit
//   status: 0 done, 1 failed, 2 wrong usage. None throws, nor calls exit.
#ifndef UZRAM_CLI_COMMANDS_H_
#define UZRAM_CLI_COMMANDS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "uzram/result.h"

namespace CLI {
class App;
}

namespace uzram::cli {

// An option that was not given is absent.
struct StartArguments {
  std::string name;
  std::optional<std::string> size, count, type, algo, level, dict, mem_limit, block_size, nbd,
      attach, backing;
  bool loop = false, foreground = false, read_only = false;
};
int run_start(const StartArguments& arguments);

struct StopArguments {
  std::string name;
  bool force = false;
};
int run_stop(const StopArguments& arguments);
// Stops a device, or clears away what a dead one left; returns when its process has ended.
Result<void> stop_device(const std::string& name, bool force);

struct ResetArguments {
  std::string name;
  bool force = false;
};
int run_reset(const ResetArguments& arguments);

struct ListArguments {
  bool json = false;
};
int run_list(const ListArguments& arguments);

struct StatArguments {
  std::string name;
  bool json = false;
};
int run_stat(const StatArguments& arguments);

struct GetArguments {
  std::string name, attribute;
};
int run_get(const GetArguments& arguments);

struct SetArguments {
  std::string name, attribute, value;
};
int run_set(const SetArguments& arguments);

// What is short for writing an attribute of the same name.
struct PassArguments {
  std::string name;
  std::vector<std::string> words;
};
int run_idle(const PassArguments& arguments);
int run_recompress(const PassArguments& arguments);
int run_writeback(const PassArguments& arguments);
int run_compact(const PassArguments& arguments);

struct AttachArguments {
  std::string name, what;  // KIND[:ARG]
};
int run_attach(const AttachArguments& arguments);

struct DetachArguments {
  std::string name, kind;
  bool force = false;
};
int run_detach(const DetachArguments& arguments);

struct SysfsArguments {
  std::string directory;
  bool foreground = false;
};
int run_sysfs(const SysfsArguments& arguments);

// Registers the subcommand with its many options; its callback stores the exit status.
void add_bench(CLI::App& app, int& exit_code);

// The program's options and subcommands, which store its exit status in `exit_code`, which outlives
// what is returned.
std::unique_ptr<CLI::App> make_app(int& exit_code);
// Parses the arguments, runs the subcommand that they name; the exit status of the program.
int run(int argc, const char* const* argv);

}  // namespace uzram::cli

#endif  // UZRAM_CLI_COMMANDS_H_
